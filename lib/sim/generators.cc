// The generators by name. Agents have a file of their own (agents.cc).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "lib/sim/agents.h"
#include "lib/sim/generated_text.h"
#include "lib/sim/random.h"
#include "prefixrouter/workload.h"

namespace prefixrouter {
namespace {

constexpr double kRequestsPerSecond = 4;  // a simulation scales it

TraceRequest MakeRequest(double time_s, const GeneratedText& prompt, uint64_t output_tokens) {
  TraceRequest request;
  request.timestamp_ns = std::llround(time_s * 1e9);
  request.prompt_tokens = prompt.tokens();
  request.output_tokens = output_tokens;
  request.hash_ids = prompt.ids();
  return request;
}

std::vector<uint64_t> NewIds(uint64_t tokens, uint64_t* next_id) {
  std::vector<uint64_t> ids(tokens / kGeneratedBlockTokens);
  for (uint64_t& id : ids) id = (*next_id)++;
  return ids;
}

uint64_t AnswerTokens(SplitMix64* random) { return LogNormalTokens(200, 0.8, 8, 2000, random); }

// One conversation from time_s on; `history` is its system prompt.
void AppendConversation(double time_s, uint64_t session, uint64_t turns, GeneratedText history,
                        uint64_t* next_id, SplitMix64* random,
                        std::vector<TraceRequest>* requests) {
  constexpr uint64_t kContextTokens = 32768;
  constexpr double kReadAndTypeSeconds = 30;
  double delay_s = -1;
  for (uint64_t turn = 0; turn < turns && history.tokens() < kContextTokens; ++turn) {
    // Mostly a question; now and then a pasted text.
    history.Append(random->Uniform() < 0.1 ? LogNormalTokens(2500, 0.6, 500, 8000, random)
                                           : LogNormalTokens(80, 0.8, 5, 600, random),
                   next_id);
    TraceRequest request = MakeRequest(time_s, history, AnswerTokens(random));
    request.session_id = std::to_string(session);
    if (delay_s >= 0) request.delay_ns = std::llround(delay_s * 1e9);
    history.Append(request.output_tokens, next_id);
    delay_s = 2 + Exponential(kReadAndTypeSeconds, random);
    time_s += 1 + kNominalOutputTokenSeconds * static_cast<double>(request.output_tokens) + delay_s;
    requests->push_back(std::move(request));
  }
}

// 2 to 20, one half below 5.
uint64_t ConversationTurns(SplitMix64* random) {
  return 2 + static_cast<uint64_t>(std::min(Exponential(4, random), 18.0));
}

Trace SharedPrompts(const GeneratorOptions& options) {
  constexpr size_t kPrompts = 24;
  SplitMix64 random(options.seed);
  uint64_t next_id = 0;
  Trace trace;
  std::vector<std::vector<uint64_t>> prompts(kPrompts);
  std::vector<double> popularity(kPrompts);  // cumulative; the n-th has a share of 1 / n
  double sum = 0;
  for (size_t i = 0; i < kPrompts; ++i) {
    prompts[i] = NewIds(LogNormalTokens(4000, 0.7, 1024, 16384, &random), &next_id);
    popularity[i] = sum += 1 / static_cast<double>(i + 1);
  }
  double time_s = 0;
  for (uint64_t i = 0; i < options.requests; ++i) {
    time_s += Exponential(1 / kRequestsPerSecond, &random);
    const auto chosen =
        std::upper_bound(popularity.begin(), popularity.end(), random.Uniform() * sum);
    const auto kind = std::min<size_t>(static_cast<size_t>(chosen - popularity.begin()), 23);
    GeneratedText prompt(prompts[kind]);
    prompt.Append(LogNormalTokens(250, 0.9, 10, 4000, &random), &next_id);
    trace.requests.push_back(MakeRequest(time_s, prompt, AnswerTokens(&random)));
  }
  return trace;
}

Trace Chat(const GeneratorOptions& options) {
  constexpr double kMeanTurns = 5.5;
  SplitMix64 random(options.seed);
  uint64_t next_id = 0;
  Trace trace;
  const std::vector<uint64_t> system_prompt = NewIds(512, &next_id);
  double time_s = 0;
  for (uint64_t session = 0; trace.requests.size() < options.requests; ++session) {
    time_s += Exponential(kMeanTurns / kRequestsPerSecond, &random);
    AppendConversation(time_s, session, ConversationTurns(&random), GeneratedText(system_prompt),
                       &next_id, &random, &trace.requests);
  }
  return trace;
}

Trace Agents(const GeneratorOptions& options) {
  constexpr uint64_t kMeanSteps = 21;
  AgentTraceOptions agents;
  agents.seed = options.seed;
  agents.sessions = static_cast<uint32_t>(std::max<uint64_t>(options.requests / kMeanSteps, 1));
  agents.session_window_s = static_cast<double>(agents.sessions) * kMeanSteps / kRequestsPerSecond;
  return AgentTrace(agents);
}

Trace Unique(const GeneratorOptions& options) {
  SplitMix64 random(options.seed);
  uint64_t next_id = 0;
  Trace trace;
  double time_s = 0;
  for (uint64_t i = 0; i < options.requests; ++i) {
    time_s += Exponential(1 / kRequestsPerSecond, &random);
    GeneratedText prompt;
    prompt.Append(LogNormalTokens(2000, 1.0, 20, 32000, &random), &next_id);
    trace.requests.push_back(MakeRequest(time_s, prompt, AnswerTokens(&random)));
  }
  return trace;
}

// Half of the requests are chat. The others come as bursts of 20 to 100 within about two seconds,
// each burst about a document that was not seen before.
Trace Bursts(const GeneratorOptions& options) {
  constexpr uint64_t kSmallest = 20, kLargest = 100;
  GeneratorOptions chat_options = options;
  chat_options.requests = std::max<uint64_t>(options.requests / 2, 1);
  Trace trace = Chat(chat_options);
  // The chat's times are those of its own rate, twice what is wanted of it.
  for (TraceRequest& request : trace.requests) request.timestamp_ns *= 2;

  SplitMix64 random(options.seed ^ 0xb0b5);
  uint64_t next_id = uint64_t{1} << 40;  // not the chat's
  double time_s = 0;
  while (trace.requests.size() < options.requests) {
    time_s += Exponential((kSmallest + kLargest) / kRequestsPerSecond, &random);
    GeneratedText document(NewIds(LogNormalTokens(9000, 0.6, 2048, 32768, &random), &next_id));
    double at_s = time_s;
    for (uint64_t left = random.Between(kSmallest, kLargest); left > 0; --left) {
      GeneratedText prompt = document;
      prompt.Append(random.Between(20, 300), &next_id);
      trace.requests.push_back(MakeRequest(at_s, prompt, AnswerTokens(&random)));
      at_s += Exponential(0.03, &random);
    }
  }
  return trace;
}

struct Generator {
  const char* name;
  const char* what;
  Trace (*make)(const GeneratorOptions&);
};

constexpr Generator kGenerators[] = {
    {"shared_prompts",
     "24 system prompts of 1,024 to 16,384 tokens and unequal popularity, each with short "
     "questions",
     SharedPrompts},
    {"chat", "conversations of 2 to 20 turns that grow behind one system prompt of 512 tokens",
     Chat},
    {"agents", "steps of 6 kinds of agents with long instructions and tool outputs", Agents},
    {"unique", "prompts of 20 to 32,000 tokens that share nothing", Unique},
    {"bursts",
     "half chat, half bursts of 20 to 100 questions within seconds about one new document", Bursts},
};

}  // namespace

std::vector<GeneratorInfo> Generators() {
  std::vector<GeneratorInfo> infos;
  for (const Generator& generator : kGenerators) infos.push_back({generator.name, generator.what});
  return infos;
}

Result<Trace> GenerateTrace(const std::string& generator, const GeneratorOptions& options) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (options.requests < 1 || options.requests > 10'000'000) {
    return invalid("requests must be 1 to 10000000, got " + std::to_string(options.requests));
  }
  const auto found = std::find_if(std::begin(kGenerators), std::end(kGenerators),
                                  [&](const Generator& known) { return generator == known.name; });
  if (found == std::end(kGenerators)) {
    std::string known;
    for (const Generator& each : kGenerators) {
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
    return invalid("generator must be one of " + known + ", got \"" + generator + "\"");
  }
  Trace trace = found->make(options);
  trace.name = generator + ", generated, seed " + std::to_string(options.seed);
  trace.block_tokens = kGeneratedBlockTokens;
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const auto& a, const auto& b) { return a.timestamp_ns < b.timestamp_ns; });
  return trace;
}

}  // namespace prefixrouter
