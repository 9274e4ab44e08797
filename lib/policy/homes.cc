#include "lib/policy/homes.h"

#include <algorithm>

#include "lib/hash/xxh3.h"

namespace prefixrouter {
namespace {

// About the last 50 prompts at home count.
constexpr double kDecay = 0.98;

}  // namespace

void Homes::InstanceAdded(InstanceId id, const std::string& name, uint32_t rank) {
  if (used_) ring_.Add(id, name, rank);
}

void Homes::InstanceRemoved(InstanceId id) {
  if (used_) ring_.Remove(id);
}

uint32_t Homes::Find(const PolicyInput& in, uint64_t branch_key) const {
  uint32_t home = PolicyInput::kNoHome;
  // Keys that a caller made may be small numbers, all in one place of the ring.
  ring_.Walk(in, Xxh3(&branch_key, sizeof(branch_key)), [&](uint32_t slot) {
    home = slot;
    return true;
  });
  return home;
}

void Homes::Learn(double unknown, double found) {
  prompts_ = kDecay * prompts_ + 1;
  unknown_ = kDecay * unknown_ + unknown;
  found_ = kDecay * found_ + std::clamp(found, 0.0, unknown);
}

}  // namespace prefixrouter
