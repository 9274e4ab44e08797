#include "tests/support/kv_events.h"

#include <cmath>
#include <cstdlib>

namespace prefixrouter::testing {
namespace {

template <typename T>
std::string Numbers(Span<const T> numbers) {
  std::string text;
  for (const T& number : numbers) {
    if (!text.empty()) text += ",";
    text += std::to_string(number);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string FromHex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

const std::vector<SampleMessage>& SampleMessages() {
  static const std::vector<SampleMessage> messages = {
      // Numbers, a remove and a clear; fields up to the tier.
      {"vllm_0.10",
       FromHex(
           "93cb3ff80000000000009397ab426c6f636b53746f7265649201cf8000000000000005c0980102030405"
           "06070804c0a347505593ac426c6f636b52656d6f7665649107a347505591b0416c6c426c6f636b73436c"
           "656172656400")},
      // Digests, all fields, and an event of a newer engine.
      {"vllm_0.20",
       FromHex(
           "93cb4004000000000000939cab426c6f636b53746f72656491c420000102030405060708090a0b0c0d0e"
           "0f101112131415161718191a1b1c1d1e1fc095010203cd012cce000111700507a3435055a261649193a2"
           "616492a46d6d6964fea473616c7401ae736c6964696e675f77696e646f77cd020094ac426c6f636b5265"
           "6d6f76656491c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fa343"
           "50550192ab4675747572654576656e740103")},
      // A map, with a key of a newer engine.
      {"map",
       FromHex(
           "93cb40040000000000009189a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573"
           "91cf8000000000000005b1706172656e745f626c6f636b5f6861736805a9746f6b656e5f696473920102"
           "aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65"
           "c0a37a7a7a81a1610100")},
      {"sglang",
       FromHex(
           "93cb40040000000000009298ab426c6f636b53746f72656491d3ce1927ef9251a63fcf77d735ce838418"
           "aa910101c0a347505581aa63616368655f73616c74a17493ac426c6f636b52656d6f76656491ffaa4350"
           "555f50494e4e454400")},
      {"empty", FromHex("93cb000000000000000090c0")},
      {"empty_0.8.5", FromHex("92cb000000000000000090")},
  };
  return messages;
}

const std::string& Sample(std::string_view name) {
  for (const SampleMessage& message : SampleMessages()) {
    if (message.name == name) return message.bytes;
  }
  std::abort();
}

std::string ToText(const KvEvent& event) {
  static constexpr const char* kKinds[] = {"stored", "removed", "cleared"};
  static constexpr const char* kTiers[] = {"gpu", "cpu", "disk", "external"};
  static constexpr const char* kAttentions[] = {"full", "partial", "not_prefix"};
  std::string text = kKinds[static_cast<int>(event.kind)];
  if (event.kind == KvEventKind::kCleared) return text;
  text += std::string(" ") + kTiers[static_cast<int>(event.tier)];
  text += " ids " + Numbers(event.block_ids);
  if (event.has_parent) text += " parent " + std::to_string(event.parent_id);
  if (event.kind == KvEventKind::kStored) {
    text += " size " + std::to_string(event.block_size) + " tokens " + Numbers(event.tokens);
  }
  if (event.group != 0) text += " group " + std::to_string(event.group);
  if (event.attention != KvAttention::kFull) {
    text += std::string(" ") + kAttentions[static_cast<int>(event.attention)];
  }
  if (!event.adapter.empty()) text += " adapter " + std::string(event.adapter);
  if (!event.salt.empty()) text += " salt " + std::string(event.salt);
  for (const KvMultimodal& item : event.multimodal) {
    text += " content " + std::to_string(item.block) + ":" + std::string(item.identifier);
    if (item.offset != KvMultimodal::kUnknownOffset) text += "@" + std::to_string(item.offset);
  }
  return text;
}

std::string ToText(const KvEventBatch& batch) {
  std::string text = std::isnan(batch.timestamp_s) ? "no time" : std::to_string(batch.timestamp_s);
  if (batch.has_rank) text += " rank " + std::to_string(batch.rank);
  text += ":";
  for (const KvEvent& event : batch.events) text += "\n  " + ToText(event);
  return text;
}

std::string ToText(const KvEventCounts& counts) {
  std::string text;
  for (int i = 0; i < kKvEventOutcomeCount; ++i) {
    if (counts.counts[i] == 0) continue;
    if (!text.empty()) text += ", ";
    text += KvEventOutcomeName(static_cast<KvEventOutcome>(i));
    text += " " + std::to_string(counts.counts[i]);
  }
  return text;
}

}  // namespace prefixrouter::testing
