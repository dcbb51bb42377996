// Lists that come in pages: the first with its parameters, more of them when somebody asks.
import { get } from "./api.js";
import { useRef, useState } from "./html.js";
import { useResource } from "./resource.js";

const PAGE = 50;

/**
 * What `GET path` lists, asked for again when one of `keys` changes. Gives `{ rows, first, more,
 * busy, error, reload }`: `first` is the first page, and `more` is null where there are no others.
 */
export function usePages(path, query, keys) {
  const begun = useResource((signal) => get(path, { ...query, limit: PAGE }, signal), keys);
  const first = begun.data;
  const latest = useRef(first);
  latest.current = first;
  const [later, setLater] = useState({ after: undefined, pages: [], busy: false, error: null });
  const added = later.after === first ? later : { pages: [], busy: false, error: null };
  const pages = [first, ...added.pages].filter(Boolean);
  const cursor = pages.at(-1)?.nextCursor;
  const more = async () => {
    // What comes for a list that is not shown any more is of no use.
    const set = (next) => latest.current === first && setLater({ after: first, pages: added.pages, error: null, busy: false, ...next });
    set({ busy: true });
    try {
      const page = await get(path, { ...query, limit: PAGE, cursor });
      set({ pages: [...added.pages, page] });
    } catch (error) {
      set({ error });
    }
  };
  return {
    rows: pages.flatMap((page) => page.items),
    first,
    more: cursor ? more : null,
    busy: added.busy,
    loading: begun.loading,
    error: begun.error ?? added.error,
    reload: begun.error ? begun.reload : more,
  };
}
