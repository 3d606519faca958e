// One task through @google/genai: node agent.cjs <way>, the task as JSON on standard input, the answer on standard
// output. Tools run where the task lives: POST <tools>/<name> with the arguments.
const {GoogleGenAI} = require('@google/genai');
const {readFileSync} = require('node:fs');

const MOST_STEPS = 20;
const task = JSON.parse(readFileSync(0, 'utf8'));
const ai = new GoogleGenAI({apiKey: 'emulator', httpOptions: {baseUrl: task.base}});
const config = {systemInstruction: task.system, tools: [{functionDeclarations: task.declarations}]};

async function respond(call) {
  const answer = await fetch(`${task.tools}/${call.name}`, {method: 'POST', body: JSON.stringify(call.args ?? {})});
  return {functionResponse: {id: call.id, name: call.name, response: await answer.json()}};
}

async function loop(ask) {
  const contents = [{role: 'user', parts: [{text: task.message}]}];
  for (let step = 0; step < MOST_STEPS; step++) {
    const content = await ask({model: task.model, contents, config});
    contents.push(content);
    const calls = content.parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    if (!calls.length) return content.parts.map((part) => part.text ?? '').join('');
    contents.push({role: 'user', parts: await Promise.all(calls.map(respond))});
  }
  throw new Error(`no answer after ${MOST_STEPS} steps`);
}

async function streamed(request) {
  const parts = [];
  for await (const chunk of await ai.models.generateContentStream(request)) {
    parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
  }
  return {role: 'model', parts};
}

function automatic() {
  const tool = {
    tool: async () => config.tools[0],
    callTool: (calls) => Promise.all(calls.map(respond)),
  };
  return {model: task.model, contents: task.message, config: {...config, tools: [tool]}};
}

const ways = {
  loop: () => loop(async (request) => (await ai.models.generateContent(request)).candidates[0].content),
  stream: () => loop(streamed),
  automatic: async () => (await ai.models.generateContent(automatic())).text,
  automaticStream: async () => {
    let text = '';
    for await (const chunk of await ai.models.generateContentStream(automatic())) text += chunk.text ?? '';
    return text;
  },
};

ways[process.argv[2]]().then(
  (answer) => console.log(JSON.stringify({answer})),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
