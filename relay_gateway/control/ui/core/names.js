// Names of entities by their ids: those that are wanted at the same time are asked for together.
import { get } from "./api.js";

/** How many ids one question may hold, as the API says. */
const TOGETHER = 32;
const known = new Map();
const wanted = new Map();

/** The entity with this id, or null; asked for once while the page lives. */
export function entityById(plural, id) {
  const key = `${plural}/${id}`;
  if (!known.has(key)) {
    const found = want(plural, id);
    known.set(key, found);
    found.catch(() => known.delete(key));
  }
  return known.get(key);
}

/** Remembers an entity that is already here. */
export const knowEntity = (plural, entity) => known.set(`${plural}/${entity.metadata.id}`, Promise.resolve(entity));

/** Forgets names that may have changed. */
export const forgetEntities = () => known.clear();

function want(plural, id) {
  return new Promise((resolve, reject) => {
    if (!wanted.has(plural)) {
      wanted.set(plural, []);
      queueMicrotask(() => ask(plural));
    }
    wanted.get(plural).push({ id, resolve, reject });
  });
}

function ask(plural) {
  const all = wanted.get(plural);
  wanted.delete(plural);
  for (let place = 0; place < all.length; place += TOGETHER) {
    const some = all.slice(place, place + TOGETHER);
    get(`/${plural}`, { id: some.map((one) => one.id), limit: some.length }).then(
      (page) => {
        const found = new Map(page.items.map((entity) => [entity.metadata.id, entity]));
        some.forEach((one) => one.resolve(found.get(one.id) ?? null));
      },
      (error) => some.forEach((one) => one.reject(error)),
    );
  }
}
