#include "prefixrouter/kv_events.h"

#include <algorithm>
#include <string>

#include "lib/events/event_names.h"
#include "lib/hash/xxh3.h"

namespace prefixrouter {
namespace {

bool EqualIgnoringCase(std::string_view text, std::string_view upper) {
  return std::equal(text.begin(), text.end(), upper.begin(), upper.end(),
                    [](char a, char b) { return (a >= 'a' && a <= 'z' ? a - 'a' + 'A' : a) == b; });
}

}  // namespace

KvTier TierOfMedium(std::string_view medium) {
  static constexpr struct {
    std::string_view name;
    KvTier tier;
  } kTiers[] = {{"GPU", KvTier::kGpu},
                {"CPU", KvTier::kCpu},
                {"CPU_PINNED", KvTier::kCpu},
                {"DISK", KvTier::kDisk},
                {"STORAGE", KvTier::kDisk}};
  for (const auto& known : kTiers) {
    if (EqualIgnoringCase(medium, known.name)) return known.tier;
  }
  return KvTier::kExternal;
}

KvAttention AttentionOfKind(std::string_view kind) {
  for (std::string_view full : {"full_attention", "mla_attention", "sink_full_attention"}) {
    if (kind == full) return KvAttention::kFull;
  }
  for (std::string_view partial :
       {"sliding_window", "sliding_window_mla", "chunked_local_attention", "mamba"}) {
    if (kind == partial) return KvAttention::kPartial;
  }
  return KvAttention::kNotPrefix;
}

const char* KvEventOutcomeName(KvEventOutcome outcome) {
  switch (outcome) {
    case KvEventOutcome::kStored:
      return "stored";
    case KvEventOutcome::kRemoved:
      return "removed";
    case KvEventOutcome::kAlreadyGone:
      return "already_gone";
    case KvEventOutcome::kCopyRemoved:
      return "copy_removed";
    case KvEventOutcome::kNotCounted:
      return "not_counted";
    case KvEventOutcome::kUnknownParent:
      return "unknown_parent";
    case KvEventOutcome::kNoTokens:
      return "no_tokens";
    case KvEventOutcome::kWrongBlockSize:
      return "wrong_block_size";
    case KvEventOutcome::kPartialBlock:
      return "partial_block";
    case KvEventOutcome::kBudgetFull:
      return "budget_full";
    case KvEventOutcome::kCleared:
      return "cleared";
    case KvEventOutcome::kNotDense:
      return "not_dense";
    case KvEventOutcome::kUnknownEvent:
      return "unknown_event";
    case KvEventOutcome::kMalformedEvent:
      return "malformed_event";
    case KvEventOutcome::kUnknownField:
      return "unknown_field";
    case KvEventOutcome::kSmallerWindow:
      return "smaller_window";
    case KvEventOutcome::kMalformedMessage:
      return "malformed_message";
    case KvEventOutcome::kOldGeneration:
      return "old_generation";
  }
  return "unknown";
}

uint64_t MultimodalHash(std::string_view identifier) {
  return Xxh3(identifier.data(), identifier.size());
}

}  // namespace prefixrouter
