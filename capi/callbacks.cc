#include "capi/callbacks.h"

#include <type_traits>
#include <utility>

#include "capi/prefix_router.h"
#include "lib/base/exceptions.h"

namespace prefixrouter::capi {
namespace {

// Arrays of ids are passed on as arrays of numbers.
static_assert(sizeof(InstanceId) == sizeof(uint64_t) && std::is_standard_layout_v<InstanceId>);
static_assert(PREFIX_ROUTER_NO_HOME == PolicyInput::kNoHome);

}  // namespace

CallbackPolicy::CallbackPolicy(std::string name, const prefix_router_options& options)
    : name_(std::move(name)),
      callback_(options.policy_callback),
      user_data_(options.policy_user_data),
      tie_tolerance_(options.policy_tie_tolerance) {}

void CallbackPolicy::Score(const PolicyInput& in, float* cost) const {
  prefix_router_policy_input input = {};
  input.struct_size = sizeof input;
  input.size = in.size;
  input.instances = reinterpret_cast<const uint64_t*>(in.ids);
  input.eligible = in.eligible;
  input.cached_blocks = in.cached_blocks;
  input.pending_tokens = in.pending_tokens;
  input.tokens_per_s = in.tokens_per_s;
  input.seconds_per_token = in.seconds_per_token;
  input.requests = in.requests;
  input.waiting = in.waiting;
  input.kv_tokens = in.kv_tokens;
  input.kv_usage = in.kv_usage;
  input.weight = in.weight;
  input.tokens_per_block = in.tokens_per_block;
  input.prompt_tokens = in.prompt_tokens;
  input.expected_output_tokens = in.expected_output_tokens;
  input.mean_waiting = in.mean_waiting;
  input.overhead_tokens = in.overhead_tokens;
  input.priority = in.priority;
  input.any_report = in.any_report ? 1 : 0;
  input.affinity_hash = in.affinity_hash;
  input.sequence = in.sequence;
  input.random = in.random;
  input.displacement = in.displacement;
  input.home = in.home;
  input.home_tokens = in.home_tokens;
  const int32_t status = callback_(&input, cost, user_data_);
  if (status == PREFIX_ROUTER_OK) return;
  const bool known = status >= PREFIX_ROUTER_CANCELLED && status <= PREFIX_ROUTER_UNAVAILABLE;
  throw StatusError(Status(known ? static_cast<StatusCode>(status) : StatusCode::kUnknown,
                           "the callback returned " + std::to_string(status)));
}

}  // namespace prefixrouter::capi
