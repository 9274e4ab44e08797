// Workloads: generated traces, and a trace made ready for the simulator.
//
// A generator makes the requests of one kind of traffic, the same on every machine for one seed.
// Its figures show how a policy behaves on that kind; they say nothing of anybody's real traffic.
//
// A Workload is a trace whose arrival times are set and whose prompts are hashed, once, so that any
// number of simulations, of different policies and in different threads, can run on it:
//
//   Result<Trace> trace = GenerateTrace("chat", {});
//   Result<std::shared_ptr<const Workload>> workload = Workload::Create(*trace, {});
//   Result<SimulationResult> result = Simulate(**workload, options);   // simulator.h
//
// Immutable, thread-safe. 8 bytes a block of each prompt, 48 a request.
#ifndef PREFIXROUTER_WORKLOAD_H_
#define PREFIXROUTER_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "prefixrouter/span.h"
#include "prefixrouter/status.h"
#include "prefixrouter/trace.h"

namespace prefixrouter {

// ---- Generators --------------------------------------------------------------------------------

struct GeneratorOptions {
  uint64_t seed = 1;
  // How many requests to make, about: sessions are made whole. Range 1 to 10,000,000.
  uint64_t requests = 8000;
};

struct GeneratorInfo {
  std::string name;
  std::string what;  // one sentence
};

// The names that GenerateTrace takes:
//   shared_prompts  a few long system prompts of unequal popularity, each with short questions
//   chat            conversations that grow turn by turn behind one short system prompt
//   agents          steps of agents with long instructions and tool outputs
//   unique          prompts that share nothing
//   bursts          light chat, and now and then many questions at once about one new document
std::vector<GeneratorInfo> Generators();

// kInvalidArgument: no generator of this name, or an option out of range.
Result<Trace> GenerateTrace(const std::string& generator, const GeneratorOptions& options);

// ---- Workload ----------------------------------------------------------------------------------

struct WorkloadOptions {
  ArrivalOptions arrivals;
  // Tokens a block in the simulated engines' caches and in the routers. 0: the trace's own blocks,
  // or 16 for a trace of token ids. It must divide the trace's block. Smaller ones cost time and
  // change little: only a prompt's partial last block can be found in more detail. Up to 32,768.
  uint32_t block_size = 0;
};

struct WorkloadRequest {
  double arrival_s = 0;  // from the first arrival on, ascending
  double delay_s = -1;   // from the end of the session's turn before it; negative: not given
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  uint32_t session = 0;  // kNoSession, or its number from 0
  uint32_t turn = 0;     // of the session, from 0
  uint32_t key_count = 0;
  size_t first_key = 0;
};

class Workload {
 public:
  static constexpr uint32_t kNoSession = UINT32_MAX;

  // kInvalidArgument: the trace is empty, an option is out of range, or block_size does not divide
  // the trace's block.
  static Result<std::shared_ptr<const Workload>> Create(const Trace& trace,
                                                        const WorkloadOptions& options);

  const std::string& name() const { return name_; }
  uint32_t block_size() const { return block_size_; }
  const std::vector<WorkloadRequest>& requests() const { return requests_; }
  // Keys of the request's full blocks, as Request::FromBlockKeys takes them.
  Span<const uint64_t> keys(const WorkloadRequest& request) const {
    return {keys_.data() + request.first_key, request.key_count};
  }
  const std::vector<std::string>& sessions() const { return sessions_; }  // ids, by number
  const ArrivalSummary& arrivals() const { return arrivals_; }
  uint64_t prompt_tokens() const { return prompt_tokens_; }
  uint64_t output_tokens() const { return output_tokens_; }
  // What one cache without limit would find of the prompt tokens, in whole blocks: the most that
  // any routing could. 0 to 1.
  double best_possible_share() const { return best_possible_share_; }

 private:
  Workload() = default;

  std::string name_;
  uint32_t block_size_ = 0;
  std::vector<WorkloadRequest> requests_;
  std::vector<uint64_t> keys_;
  std::vector<std::string> sessions_;
  ArrivalSummary arrivals_;
  uint64_t prompt_tokens_ = 0;
  uint64_t output_tokens_ = 0;
  double best_possible_share_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_WORKLOAD_H_
