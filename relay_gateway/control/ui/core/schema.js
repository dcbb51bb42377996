// Forms are drawn from the OpenAPI document: what a field is, and what it may be.
import { get } from "./api.js";

/** Fields that hold an id, and the kind of entity it is the id of. */
export const REFERENCES = {
  hostId: "hosts",
  hostIds: "hosts",
  policyId: "policies",
  providerId: "providers",
  pricingId: "pricings",
  hostKeyIds: "host-keys",
  rateLimitId: "rate-limits",
  rateLimitIds: "rate-limits",
  replacementId: "models",
  fallbacks: "models",
};

let loaded = null;

/** The document, asked for once. */
export function openApi() {
  loaded ??= get("/openapi.json").catch((error) => {
    loaded = null;
    throw error;
  });
  return loaded;
}

/** Schemas of one document. */
export class Schemas {
  constructor(document) {
    this.document = document;
    this.all = document.components.schemas;
  }

  /** `schema` without references, without the alternative null (then `nullable` is true). */
  resolve(schema) {
    let found = schema;
    while (found.$ref) {
      const { $ref, ...beside } = found;
      found = { ...this.all[$ref.split("/").at(-1)], ...beside };
    }
    const options = found.anyOf ?? [];
    const real = options.filter((option) => option.type !== "null");
    if (!found.properties && real.length === 1 && real.length < options.length) {
      const { anyOf: _, ...beside } = found;
      return { ...this.resolve(real[0]), ...beside, nullable: true };
    }
    return found;
  }

  /** What is sent to make (`POST`) or change (`PUT`) an entity of a kind. */
  body(plural, method) {
    const path = method === "post" ? `/${plural}` : `/${plural}/by-id/{id}`;
    const operation = this.document.paths[path][method];
    return this.resolve(operation.requestBody.content["application/json"].schema);
  }

  /** The spec of what `POST` or `PUT` takes. */
  spec(plural, method) {
    return this.resolve(this.body(plural, method).properties.spec);
  }

  /** Fields that the server decides: they may be sent back, and are not to be filled in. */
  decided(plural) {
    const given = this.spec(plural, "post").properties;
    return Object.keys(this.spec(plural, "put").properties).filter((name) => !(name in given));
  }

  /** The fields of an object. A field that depends on the value of another is as that says. */
  fields(schema, value) {
    const properties = { ...(schema.properties ?? {}) };
    for (const option of schema.anyOf ?? []) {
      const entries = Object.entries(option.properties ?? {});
      const chosen = entries.filter(([, one]) => "const" in one);
      if (chosen.length && chosen.every(([name, one]) => value?.[name] === one.const)) {
        for (const [name, one] of entries) {
          if (one.$ref) properties[name] = { ...properties[name], ...one, anyOf: undefined };
        }
      }
    }
    return properties;
  }

  /** What a field is drawn as. */
  control(name, schema) {
    const found = this.resolve(schema);
    if (found.oneOf) return "choice";
    if (found.const !== undefined) return "fixed";
    if (found.enum) return "select";
    if (found.type === "array") return this.listControl(name, found);
    if (found.type === "boolean") return "switch";
    if (found.type === "integer" && name.endsWith("Nanos")) return "money";
    if (found.type === "integer" || found.type === "number") return "number";
    if (found.properties) return "object";
    if (found.type === "object") return "pairs";
    if (name in REFERENCES) return "reference";
    if (found.format === "password" || found.writeOnly) return "secret";
    if (found.format === "date-time") return "moment";
    if ((found.maxLength ?? 0) >= 1000 && name === "description") return "text";
    return "line";
  }

  listControl(name, schema) {
    if (name in REFERENCES) return "references";
    const items = this.resolve(schema.items ?? {});
    if (items.enum) return "several";
    return items.properties || items.anyOf?.some((one) => one.properties) ? "objects" : "lines";
  }

  /** The value that a new field begins with. */
  initial(schema) {
    const found = this.resolve(schema);
    if (found.default !== undefined) return structuredClone(found.default);
    if (found.const !== undefined) return found.const;
    if (found.type === "array") return [];
    if (found.oneOf) return undefined;
    if (!found.properties) return found.type === "object" ? {} : undefined;
    return this.initialObject(found);
  }

  /** A new object: what is required of it, and what has a default. */
  initialObject(schema) {
    const required = new Set(schema.required ?? []);
    const value = {};
    for (const [name, one] of Object.entries(schema.properties ?? {})) {
      const first = this.initial(one);
      if (first !== undefined && (required.has(name) || first !== null)) value[name] = first;
    }
    return value;
  }
}
