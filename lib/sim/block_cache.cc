#include "lib/sim/block_cache.h"

namespace prefixrouter {

BlockCache::Match BlockCache::Find(Span<const uint64_t> keys) const {
  Match match;
  for (const uint64_t key : keys) {
    const auto found = index_.find(key);
    if (found == index_.end()) break;
    ++match.blocks;
    match.idle += entries_[found->second].references == 0 ? 1 : 0;
  }
  return match;
}

void BlockCache::Reference(Block block) {
  Entry& entry = entries_[block];
  if (entry.references++ != 0) return;
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
  --idle_count_;
}

void BlockCache::Acquire(Span<const uint64_t> keys, std::vector<Block>* blocks) {
  for (const uint64_t key : keys) {
    const Block block = index_.find(key)->second;
    Reference(block);
    blocks->push_back(block);
  }
}

void BlockCache::Release(const std::vector<Block>& blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    Entry& entry = entries_[*block];
    if (--entry.references != 0) continue;
    entry.older = newest_;
    entry.newer = kNone;
    (newest_ == kNone ? oldest_ : entries_[newest_].newer) = *block;
    newest_ = *block;
    ++idle_count_;
  }
}

void BlockCache::EvictOldest() {
  const Block block = oldest_;
  const Entry& entry = entries_[block];
  oldest_ = entry.newer;
  (oldest_ == kNone ? newest_ : entries_[oldest_].older) = kNone;
  --idle_count_;
  index_.erase(entry.key);
  unused_.push_back(block);
  if (listener_ != nullptr) listener_->BlockRemoved(entry.key);
}

bool BlockCache::Allocate(uint64_t pages) {
  if (!HasRoom(pages)) return false;
  while (free_pages() < pages) EvictOldest();
  private_pages_ += pages;
  return true;
}

BlockCache::Block BlockCache::Publish(uint64_t key, uint64_t parent, bool first) {
  private_pages_ -= pages_per_block_;
  const auto [place, added] = index_.try_emplace(key, kNone);
  if (!added) {
    Reference(place->second);
    return place->second;
  }
  Block block;
  if (unused_.empty()) {
    block = static_cast<Block>(entries_.size());
    entries_.emplace_back();
  } else {
    block = unused_.back();
    unused_.pop_back();
  }
  entries_[block] = {key, 1, kNone, kNone};
  place->second = block;
  if (listener_ != nullptr) listener_->BlockStored(key, parent, first);
  return block;
}

void BlockCache::Clear() {
  private_pages_ = 0;
  index_.clear();
  entries_.clear();
  unused_.clear();
  oldest_ = newest_ = kNone;
  idle_count_ = 0;
  if (listener_ != nullptr) listener_->AllBlocksCleared();
}

}  // namespace prefixrouter
