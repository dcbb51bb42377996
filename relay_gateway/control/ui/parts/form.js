// Forms that are drawn from schemas, so that a plugin's fields look like the gateway's own.
import { html, useId, useState } from "../core/html.js";
import { fieldOf, label, momentOf } from "../core/format.js";
import { REFERENCES } from "../core/schema.js";
import { Prose } from "./bits.js";
import { Picker } from "./picker.js";
import { t } from "../strings.js";

/** `spec.rules[0].amount` of a parent and a step. */
const join = (path, step) => (typeof step === "number" ? `${path}[${step}]` : path ? `${path}.${step}` : step);

/** All fields of an object schema. `form` is `{ schemas, problems }`; problems map paths to texts. */
export function Fields({ form, schema, value, path, onChange, skip = [], only = null }) {
  const required = new Set(schema.required ?? []);
  const entries = Object.entries(form.schemas.fields(schema, value ?? {})).filter(
    ([name]) => !skip.includes(name) && (!only || only.includes(name)),
  );
  const set = (name) => (one) => {
    const next = { ...value };
    if (one === undefined) delete next[name];
    else next[name] = one;
    onChange(next);
  };
  return html`<div class="fields">
    ${entries.map(
      ([name, one]) => html`<${Field}
        key=${name}
        ...${{ form, name, schema: one, value: value?.[name], path: join(path, name), required: required.has(name), onChange: set(name) }}
      />`,
    )}
  </div>`;
}

/** One field, as its schema says. */
export function Field(props) {
  const { form, name, path } = props;
  const schema = form.schemas.resolve(props.schema);
  const control = form.schemas.control(name, props.schema);
  const Control = CONTROLS[control];
  if (!Control) return null;
  const id = useId();
  const problem = form.problems[path];
  const help = schema.description && !schema.properties && !schema.oneOf ? schema.description : "";
  const described = [help && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const given = { ...props, schema, id, invalid: Boolean(problem), describedBy: described };
  const notes = html`
    ${help && html`<span class="hint" id=${`${id}-help`}><${Prose} text=${help} /></span>`}
    ${problem && html`<span class="problem" id=${`${id}-problem`} data-problem=${path}>${problem}</span>`}
  `;
  if (control === "switch") {
    return html`<div class="field"><div class="field inline"><${Control} ...${given} /><label for=${id}>${label(name)}</label></div>${notes}</div>`;
  }
  if (GROUPS.has(control)) {
    return html`<fieldset aria-describedby=${described}>
      <legend>${label(name)}${props.required && html` <span class="needed">${t.entity.required}</span>`}</legend>
      <div class="stack">${notes}<${Control} ...${given} /></div>
    </fieldset>`;
  }
  return html`<div class="field">
    <label for=${id}>${label(name)}${props.required && html` <span class="needed">${t.entity.required}</span>`}</label>
    <${Control} ...${given} />
    ${notes}
  </div>`;
}

const common = ({ id, invalid, describedBy, required }) => ({
  id,
  "aria-invalid": invalid || undefined,
  "aria-describedby": describedBy,
  "aria-required": required || undefined,
});

/** What an emptied field means: nothing said, or null where that is a value of its own. */
const emptied = (schema) => (schema.nullable ? null : undefined);

const Line = (props) => html`<input
  ...${common(props)}
  autocomplete="off"
  spellcheck=${false}
  maxlength=${props.schema.maxLength}
  placeholder=${props.schema.examples?.[0] ?? ""}
  value=${props.value ?? ""}
  onInput=${(event) => props.onChange(event.target.value === "" ? emptied(props.schema) : event.target.value)}
/>`;

const Text = (props) => html`<textarea
  ...${common(props)}
  rows="3"
  maxlength=${props.schema.maxLength}
  value=${props.value ?? ""}
  onInput=${(event) => props.onChange(event.target.value)}
></textarea>`;

function SecretField(props) {
  const [seen, setSeen] = useState(false);
  return html`<div class="row nowrap">
    <input
      ...${common(props)}
      type=${seen ? "text" : "password"}
      autocomplete="new-password"
      spellcheck=${false}
      value=${props.value ?? ""}
      onInput=${(event) => props.onChange(event.target.value === "" ? undefined : event.target.value)}
    />
    <button type="button" onClick=${() => setSeen(!seen)}>${seen ? t.form.hide : t.form.show}</button>
  </div>`;
}

const NumberField = (props) => html`<input
  ...${common(props)}
  type="number"
  step=${props.schema.type === "integer" ? 1 : "any"}
  min=${props.schema.minimum}
  max=${props.schema.maximum}
  value=${props.value ?? ""}
  onInput=${(event) => props.onChange(event.target.value === "" ? emptied(props.schema) : Number(event.target.value))}
/>`;

/** An amount of money, which the API is told in thousand-millionths. */
const Money = (props) => html`<input
  ...${common(props)}
  type="number"
  step="any"
  min="0"
  value=${props.value === undefined ? "" : props.value / 1e9}
  onInput=${(event) => props.onChange(event.target.value === "" ? undefined : Math.round(Number(event.target.value) * 1e9))}
/>`;

const Switch = (props) => html`<input
  ...${common(props)}
  type="checkbox"
  checked=${Boolean(props.value)}
  onChange=${(event) => props.onChange(event.target.checked)}
/>`;

const Select = (props) => html`<select
  ...${common(props)}
  value=${props.value ?? ""}
  onChange=${(event) => props.onChange(event.target.value === "" ? emptied(props.schema) : event.target.value)}
>
  ${(!props.required || props.value === undefined) && html`<option value="">${t.form.choose}</option>`}
  ${props.schema.enum.filter((one) => one !== null).map((one) => html`<option value=${one}>${one}</option>`)}
</select>`;

/** A date and time of the chosen zone; the API is told the same moment in UTC. */
const Moment = (props) => html`<input
  ...${common(props)}
  type="datetime-local"
  value=${fieldOf(props.value)}
  onInput=${(event) => props.onChange(momentOf(event.target.value) ?? emptied(props.schema))}
/>`;

const Reference = (props) => html`<${Picker}
  ...${{ plural: REFERENCES[props.name], value: props.value, id: props.id, invalid: props.invalid, describedBy: props.describedBy }}
  onChange=${(value) => props.onChange(value ?? emptied(props.schema))}
/>`;

function References(props) {
  const values = props.value ?? [];
  const change = (index) => (value) =>
    props.onChange(value ? values.map((old, at) => (at === index ? value : old)) : values.filter((_, at) => at !== index));
  const plural = REFERENCES[props.name];
  return html`<div class="stack">
    ${values.map((value, index) => html`<${Picker} key=${value} ...${{ plural, value }} onChange=${change(index)} />`)}
    <${Picker} key=${`new-${values.length}`} id=${props.id} plural=${plural} value=${null} onChange=${(value) => value && !values.includes(value) && props.onChange([...values, value])} />
  </div>`;
}

const Several = (props) => html`<div class="row">
  ${props.schema.items.enum.map((one) => {
    const set = new Set(props.value ?? []);
    const flip = () => {
      set.has(one) ? set.delete(one) : set.add(one);
      props.onChange([...set]);
    };
    return html`<label class="row"><input type="checkbox" checked=${set.has(one)} onChange=${flip} />${one}</label>`;
  })}
</div>`;

function Lines(props) {
  const [text, setText] = useState(() => (props.value ?? []).join("\n"));
  const lines = (value) => value.split("\n").map((one) => one.trim()).filter(Boolean);
  const outside = lines(text).join("\n") !== (props.value ?? []).join("\n");
  return html`<textarea
    ...${common(props)}
    rows=${Math.min(8, Math.max(2, text.split("\n").length))}
    spellcheck=${false}
    placeholder=${t.form.perLine}
    value=${outside ? (props.value ?? []).join("\n") : text}
    onInput=${(event) => {
      setText(event.target.value);
      props.onChange(lines(event.target.value));
    }}
  ></textarea>`;
}

function Objects(props) {
  const values = props.value ?? [];
  const { form, path } = props;
  const items = form.schemas.resolve(props.schema.items);
  const set = (index) => (value) => props.onChange(values.map((old, at) => (at === index ? value : old)));
  return html`<div class="stack">
    ${values.map(
      (value, index) => html`<div class="box stack item" key=${index}>
        <${Fields} ...${{ form, schema: items, value, path: join(path, index), onChange: set(index) }} />
        <div><button type="button" onClick=${() => props.onChange(values.filter((_, at) => at !== index))}>${t.remove}</button></div>
      </div>`,
    )}
    <div><button type="button" onClick=${() => props.onChange([...values, form.schemas.initialObject(items)])}>${t.form.addItem}</button></div>
  </div>`;
}

function Pairs(props) {
  const [rows, setRows] = useState(() => Object.entries(props.value ?? {}));
  const update = (next) => {
    setRows(next);
    props.onChange(Object.fromEntries(next.filter(([key]) => key !== "")));
  };
  const edit = (index, place) => (event) =>
    update(rows.map((row, at) => (at === index ? row.map((old, part) => (part === place ? event.target.value : old)) : row)));
  return html`<div class="stack">
    ${rows.map(
      ([key, value], index) => html`<div class="pair" key=${index}>
        <input aria-label=${t.form.key} placeholder=${t.form.key} value=${key} onInput=${edit(index, 0)} />
        <input aria-label=${t.form.value} placeholder=${t.form.value} value=${value} onInput=${edit(index, 1)} />
        <button type="button" class="quiet icon" aria-label=${t.remove} onClick=${() => update(rows.filter((_, at) => at !== index))}>×</button>
      </div>`,
    )}
    <div><button type="button" onClick=${() => update([...rows, ["", ""]])}>${t.form.addItem}</button></div>
  </div>`;
}

function ObjectFields(props) {
  const { form, schema, path } = props;
  if (props.value === undefined || props.value === null) {
    if (!schema.nullable && props.required) return html`<${Fields} ...${{ form, schema, path, value: {}, onChange: props.onChange }} />`;
    return html`<div><button type="button" onClick=${() => props.onChange(form.schemas.initialObject(schema))}>${t.add}</button></div>`;
  }
  return html`<${Fields} ...${{ form, schema, path, value: props.value, onChange: props.onChange }} />
    ${schema.nullable && html`<div><button type="button" onClick=${() => props.onChange(null)}>${t.remove}</button></div>`}`;
}

/** What a reference to a stored secret is read with, and never written with. */
const FROM_SERVER = ["keyId", "updatedAt"];

/** One of several forms, told apart by a field such as `kind`. */
function Choice(props) {
  const { form, schema, path, value } = props;
  const tag = schema.discriminator?.propertyName ?? "kind";
  const options = schema.oneOf.map((one) => form.schemas.resolve(one));
  const nameOf = (option) => option.properties[tag].const;
  const chosen = options.find((option) => nameOf(option) === value?.[tag]);
  const choose = (event) => {
    const option = options.find((one) => nameOf(one) === event.target.value);
    props.onChange(option && form.schemas.initialObject({ ...option, required: [...(option.required ?? []), tag] }));
  };
  return html`<div class="stack">
    <div class="field">
      <label for=${props.id}>${label(tag)}</label>
      <select ...${common(props)} value=${value?.[tag] ?? ""} onChange=${choose}>
        <option value="">${t.form.choose}</option>
        ${options.map((option) => html`<option value=${nameOf(option)}>${nameOf(option)}</option>`)}
      </select>
      ${chosen?.description && html`<span class="hint"><${Prose} text=${chosen.description} /></span>`}
    </div>
    ${chosen && html`<${Fields} ...${{ form, schema: chosen, value, path, onChange: props.onChange, skip: [tag, ...FROM_SERVER] }} />`}
  </div>`;
}

const GROUPS = new Set(["object", "objects", "pairs", "choice", "references", "several"]);
const CONTROLS = {
  line: Line,
  text: Text,
  secret: SecretField,
  number: NumberField,
  money: Money,
  switch: Switch,
  select: Select,
  moment: Moment,
  reference: Reference,
  references: References,
  several: Several,
  lines: Lines,
  objects: Objects,
  pairs: Pairs,
  object: ObjectFields,
  choice: Choice,
};

/** Paths and texts of the fields that an `ApiError` names. */
export const problemsOf = (error) => Object.fromEntries(error.fields.map((one) => [one.field, one.message]));

/** What a save was refused for, with links to the fields. */
export function Problems({ error }) {
  if (!error) return null;
  const go = (path) => (event) => {
    event.preventDefault();
    const mark = document.querySelector(`[data-problem="${CSS.escape(path)}"]`);
    const field = mark?.closest(".field, fieldset")?.querySelector("input, select, textarea, button");
    field?.focus();
  };
  return html`<div class="notice bad stack" role="alert">
    <strong>${error.fields.length ? t.entity.problems(error.fields.length) : error.message}</strong>
    ${error.fields.map((one) => html`<a href="#" key=${one.field} onClick=${go(one.field)}><code>${one.field}</code> ${one.message}</a>`)}
  </div>`;
}
