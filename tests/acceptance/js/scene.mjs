// What the programs of this directory share: where to call, what to offer, how to report.

export const url = process.env.GATEWAY_URL;
export const key = process.env.GATEWAY_KEY;
export const models = process.env.GATEWAY_MODELS.split(",");

export const schema = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "integer" } },
  required: ["city", "degrees"],
  additionalProperties: false,
};
export const parameters = { type: "object", properties: { city: { type: "string" } } };
export const tools = ["get_weather", "get_time"];
export const pixel = process.env.PIXEL;

// Prints what one scenario gave for one model; the test that runs the program judges it.
export async function report(model, scenario, work) {
  let outcome;
  try {
    outcome = { value: await work() };
  } catch (error) {
    outcome = { error: error.constructor.name, status: error.status ?? null, message: error.message };
  }
  console.log(JSON.stringify({ model, scenario, ...outcome }));
}

export async function forEachModel(scenarios) {
  for (const model of models) {
    for (const [name, scenario] of Object.entries(scenarios)) {
      await report(model, name, () => scenario(model));
    }
  }
}
