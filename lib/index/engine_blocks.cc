#include "lib/index/engine_blocks.h"

#include <algorithm>

namespace prefixrouter {
namespace {

constexpr uint32_t kLargestBlock = 1u << 20;  // tokens
// In place of a number, until it is known.
constexpr BlockNumber kComing = UINT32_MAX;

uint32_t TierBit(uint32_t tier) { return 1u << tier; }

}  // namespace

EngineBlocks::EngineBlocks(PrefixIndex* index, const BlockHasher* hasher, uint32_t slot,
                           std::string model, uint32_t counted_tiers, size_t expected_blocks,
                           Displacement* displacement)
    : index_(*index),
      hasher_(*hasher),
      slot_(slot),
      model_(std::move(model)),
      counted_tiers_(counted_tiers),
      displacement_(displacement),
      root_key_(hasher->RootKey({model_, {}, {}})),
      table_(index->meter(), expected_blocks),
      pieces_(index, hasher, slot) {}

EngineBlocks::~EngineBlocks() { ForgetCopies(); }

void EngineBlocks::Clear() {
  index_.Clear(slot_);
  table_.Clear();
  pieces_.Clear();
  ForgetCopies();
  has_usual_group_ = false;
  partial_groups_ = 0;
  left_out_ = false;
}

size_t EngineBlocks::bytes() const {
  using Map = decltype(more_copies_);
  size_t bytes = table_.bytes() + pieces_.bytes() + MapBytes<Map>(more_copies_.capacity());
  for (const auto& [id, list] : more_copies_) bytes += CopiesBytes(list.size());
  return bytes;
}

void EngineBlocks::PrefetchBlocks(const KvEvent& event) const {
  constexpr size_t kMost = 256;  // more would not stay in the cache until they are needed
  const Span<const uint64_t> ids =
      event.block_ids.subspan(0, std::min(event.block_ids.size(), kMost));
  const bool stored = event.kind == KvEventKind::kStored;
  if (stored) {
    table_.PrefetchFree(ids.size());
    index_.PrefetchNumbers(ids.size());
  }
  // From one block the way goes on into the index. Each step needs what the one before has asked
  // for, so others' places are asked for in between.
  const bool leads = stored ? event.has_parent : !ids.empty();
  const uint64_t leading_id = !leads ? 0 : stored ? event.parent_id : ids[0];
  BlockNumber leading = 0;
  if (leads) table_.PrefetchPlace(leading_id);
  constexpr size_t kSteps = 5;
  size_t i = 0;
  for (size_t step = 1; step <= kSteps; ++step) {
    for (; i < ids.size() * step / kSteps; ++i) table_.PrefetchPlace(ids[i]);
    if (leads && step == 1) table_.PrefetchEntry(leading_id, false);
    if (leads && step == 2) {
      const EngineBlock* const block = table_.Find(leading_id);
      if (block != nullptr && block->piece == 0) leading = block->number;
      if (leading != 0) index_.PrefetchBlock(leading);
    }
    if (leading != 0 && step == 3) index_.PrefetchRun(leading);
    if (leading != 0 && step == 4) index_.PrefetchRunParts(leading);
  }
}

bool EngineBlocks::Apply(const KvEvent& event, int64_t now_nanos, KvEventCounts* counts) {
  bool missing = false;
  switch (event.kind) {
    case KvEventKind::kCleared:
      Clear();
      ++(*counts)[KvEventOutcome::kCleared];
      return false;
    case KvEventKind::kStored:
      missing = Store(event, now_nanos, counts);
      break;
    case KvEventKind::kRemoved:
      Remove(event, now_nanos, counts);
      break;
    default:
      ++(*counts)[KvEventOutcome::kUnknownEvent];
  }
  if (index_.bytes() > index_.budget_bytes()) {  // by the holes that it has
    ++(*counts)[KvEventOutcome::kBudgetFull];
    Clear();
    left_out_ = true;
  }
  return missing && !left_out_;
}

// ---- Stored ------------------------------------------------------------------------------------

bool EngineBlocks::Store(const KvEvent& event, int64_t now_nanos, KvEventCounts* counts) {
  const size_t blocks = event.block_ids.size();
  const auto leave_out = [&](KvEventOutcome outcome) {
    (*counts)[outcome] += blocks;
    return false;
  };
  const uint64_t group_bit = event.group < 64 ? uint64_t{1} << event.group : 0;
  if (event.attention != KvAttention::kFull) {
    partial_groups_ |= group_bit;
    return leave_out(KvEventOutcome::kNotCounted);
  }
  partial_groups_ &= ~group_bit;
  const uint32_t tier = static_cast<uint32_t>(event.tier);
  if (tier >= kKvTierCount || (counted_tiers_ >> tier & 1) == 0) {
    return leave_out(KvEventOutcome::kNotCounted);
  }
  if (blocks == 0) return false;
  if (!has_usual_group_) {
    has_usual_group_ = true;
    usual_group_ = event.group;
  }
  if (event.tokens.empty()) {
    for (size_t i = 0; i < blocks;) {
      size_t next = i;
      while (next < blocks && Held(table_.Find(event.block_ids[next]))) ++next;
      if (next == i) {
        ++(*counts)[KvEventOutcome::kNoTokens];
        ++next;
      } else {
        StoreKnown(event, i, next, now_nanos, counts);
      }
      i = next;
    }
    return false;
  }

  const uint32_t size = event.block_size;
  const uint32_t own_size = hasher_.block_size();
  if (size == 0 || size > kLargestBlock || !ReadMultimodal(event)) {
    ++(*counts)[KvEventOutcome::kMalformedEvent];
    return false;
  }
  if (event.tokens.size() != blocks * size) {
    ++(*counts)[KvEventOutcome::kNotDense];
    return false;
  }
  if (size % own_size != 0 && own_size % size != 0) {
    return leave_out(KvEventOutcome::kWrongBlockSize);
  }
  const bool pieces = size < own_size;
  uint32_t parent = 0;  // a BlockNumber or a PieceNumber
  uint64_t key = 0;
  if (event.has_parent) {
    const EngineBlock* const found = table_.Find(event.parent_id);
    if (Held(found)) {
      if ((found->piece != 0) != pieces) return leave_out(KvEventOutcome::kWrongBlockSize);
      parent = found->number;
    } else if (event.parent_id != 0) {
      leave_out(KvEventOutcome::kUnknownParent);
      return true;
    }
  }
  if (parent == 0) {
    key = event.adapter.empty() && event.salt.empty()
              ? root_key_
              : hasher_.RootKey({model_, event.adapter, event.salt});
  }
  if (pieces) {
    StorePieces(event, parent, key, now_nanos, counts);
  } else {
    StoreBlocks(event, parent, parent == 0 ? key : index_.KeyOf(parent), now_nanos, counts);
  }
  return false;
}

void EngineBlocks::RemoveAdded() {
  for (EngineBlock* block : added_) {
    try {
      table_.Remove(block);
    } catch (...) {  // it is removed, and the table could not become smaller
    }
  }
}

void EngineBlocks::StoreBlocks(const KvEvent& event, BlockNumber parent, uint64_t key,
                               int64_t now_nanos, KvEventCounts* counts) {
  const Span<const uint64_t> ids = event.block_ids;
  const uint32_t own_size = hasher_.block_size();
  const uint32_t covers = event.block_size / own_size;
  const uint32_t tier = static_cast<uint32_t>(event.tier);
  const auto no_room = [&](size_t blocks) {
    (*counts)[KvEventOutcome::kBudgetFull] += blocks;
    left_out_ = true;
  };
  // Most often all blocks are new. Hashing them now leaves time for what was prefetched to come.
  const auto hash_from = [&](size_t first, uint64_t previous) {
    keys_.resize((ids.size() - first) * covers);
    hasher_.ExtendKeys(previous, reinterpret_cast<const unsigned char*>(event.tokens.data()),
                       own_size * sizeof(uint32_t), first * covers, {items_.data(), items_.size()},
                       sizeof(uint32_t), {keys_.data(), keys_.size()});
  };
  size_t hashed_from = 0;
  for (uint64_t id : ids) table_.PrefetchEntry(id, true);
  hash_from(0, key);
  index_.PrefetchChild(keys_[0]);
  if (!index_.HasRoomForConfirmed(table_.GrowthBound(ids.size()))) {
    const size_t growth = table_.GrowthBytes(ids);
    if (growth != 0 && !index_.MakeRoomForConfirmed(growth)) return no_room(ids.size());
  }
  const bool usual = event.group == usual_group_;
  const EngineBlock coming = {0, kComing, usual ? TierBit(tier) & 0xfu : 0u,
                              0, 0,       covers & 0x3ffffffu};
  for (size_t i = 0; i < ids.size();) {
    // New blocks first get their entries, and then their places in the index.
    added_.clear();
    EngineBlock* known = nullptr;
    bool stored = false;
    try {
      table_.AddAll(ids.subspan(i), coming, &added_);
      if (added_.size() != ids.size() - i) known = table_.Find(ids[i + added_.size()]);
      numbers_.resize(added_.size() * covers);
      stored =
          !added_.empty() &&
          index_.Store(slot_, parent, {keys_.data() + (i - hashed_from) * covers, numbers_.size()},
                       tier, now_nanos, {numbers_.data(), numbers_.size()});
    } catch (...) {
      RemoveAdded();
      throw;
    }
    if (!added_.empty()) {
      for (size_t j = 0; j < added_.size(); ++j) {
        added_[j]->number = numbers_[(j + 1) * covers - 1];
        if (!stored || (!usual && !AddCopy(added_[j], tier, event.group))) {
          if (stored) {
            index_.RemoveCopies(slot_, {numbers_.data() + j * covers, (added_.size() - j) * covers},
                                tier);
          }
          for (size_t k = j; k < added_.size(); ++k) table_.Remove(added_[k]);
          return no_room(ids.size() - i - j);
        }
      }
      (*counts)[KvEventOutcome::kStored] += added_.size();
      for (size_t j = 0; displacement_ != nullptr && j < numbers_.size(); ++j) {
        const uint64_t stored_key = keys_[(i - hashed_from) * covers + j];
        if (displacement_->Samples(stored_key)) {
          displacement_->Stored(stored_key, index_.HeldByOne(numbers_[j]), 1.0 / covers);
        }
      }
      parent = numbers_.back();
      i += added_.size();
    }
    if (known == nullptr) continue;
    if (std::find(added_.begin(), added_.end(), known) != added_.end()) {
      ++(*counts)[KvEventOutcome::kMalformedEvent];  // twice: two places cannot both be right
      return;
    }
    size_t next = i;
    for (EngineBlock* block = known; block != nullptr; block = table_.Find(ids[next])) {
      if (block->covers != covers || block->piece != 0) {
        (*counts)[KvEventOutcome::kWrongBlockSize] += ids.size() - i;
        return;
      }
      known = block;
      if (++next == ids.size()) break;
    }
    parent = known->number;
    if (next < ids.size()) {  // it may have another parent than the event says
      hash_from(next, index_.KeyOf(parent));
      hashed_from = next;
    }
    if (!StoreKnown(event, i, next, now_nanos, counts)) return no_room(ids.size() - next);
    i = next;
  }
}

void EngineBlocks::StorePieces(const KvEvent& event, PieceNumber parent, uint64_t root_key,
                               int64_t now_nanos, KvEventCounts* counts) {
  const uint32_t size = event.block_size;
  const uint32_t tier = static_cast<uint32_t>(event.tier);
  auto item = items_.begin();
  std::vector<MultimodalItem> items;
  for (size_t i = 0; i < event.block_ids.size(); ++i) {
    const uint64_t id = event.block_ids[i];
    items.clear();
    for (; item != items_.end() && item->offset < (i + 1) * size; ++item) {
      items.push_back({item->offset - i * size, item->content_hash});
    }
    EngineBlock* block = table_.Find(id);
    const size_t left = event.block_ids.size() - i;
    if (block != nullptr && block->piece == 0) {
      (*counts)[KvEventOutcome::kWrongBlockSize] += left;
      return;
    }
    if (block == nullptr) {
      if (pieces_.Room(parent) < size) {
        (*counts)[KvEventOutcome::kWrongBlockSize] += left;
        return;
      }
      const PieceNumber number =
          index_.MakeRoomForConfirmed(table_.GrowthBytes({&id, 1}))
              ? pieces_.Add(parent, root_key, id, event.tokens.subspan(i * size, size),
                            {items.data(), items.size()})
              : 0;
      if (number == 0) {
        (*counts)[KvEventOutcome::kBudgetFull] += left;
        left_out_ = true;
        return;
      }
      table_.Add({id, number, 0, 0, 1, 0});
      block = table_.Find(id);
    }
    parent = block->number;
    const bool counted = AddCopy(block, tier, event.group);
    const bool stored = pieces_.SetTiers(parent, TiersOf(*block), now_nanos);
    left_out_ = left_out_ || !counted || !stored;
    if (!counted) {
      (*counts)[KvEventOutcome::kBudgetFull] += left;
      break;
    }
    ++(*counts)[stored ? KvEventOutcome::kStored : KvEventOutcome::kBudgetFull];
  }
  EraseFreedPieces();
}

bool EngineBlocks::StoreKnown(const KvEvent& event, size_t first, size_t last, int64_t now_nanos,
                              KvEventCounts* counts) {
  const uint32_t tier = static_cast<uint32_t>(event.tier);
  bool room = true;
  size_t counted = first;
  numbers_.clear();
  for (; room && counted < last; ++counted) {
    EngineBlock* const block = table_.Find(event.block_ids[counted]);
    const bool in_tier = (TiersOf(*block) >> tier & 1) != 0;
    if (!AddCopy(block, tier, event.group)) {
      room = false;
      break;
    }
    if (block->piece != 0) {
      room = pieces_.SetTiers(block->number, TiersOf(*block), now_nanos);
    } else if (!in_tier) {
      AppendNumbers(*block);
    }
  }
  const Span<const BlockNumber> numbers{numbers_.data(), numbers_.size()};
  if (room) {
    const size_t added = index_.AddCopies(slot_, numbers, tier, now_nanos);
    if (added != numbers.size()) {
      index_.RemoveCopies(slot_, numbers.subspan(0, added), tier);
      room = false;
    }
  }
  if (!room) {
    while (counted > first) {
      EngineBlock* const block = table_.Find(event.block_ids[--counted]);
      TakeCopy(block, tier, event.group);
      if (block->piece != 0) pieces_.SetTiers(block->number, TiersOf(*block), now_nanos);
    }
    left_out_ = true;
  }
  (*counts)[room ? KvEventOutcome::kStored : KvEventOutcome::kBudgetFull] += last - first;
  return room;
}

// ---- Removed -----------------------------------------------------------------------------------

void EngineBlocks::Remove(const KvEvent& event, int64_t now_nanos, KvEventCounts* counts) {
  const uint32_t tier = static_cast<uint32_t>(event.tier);
  if (tier >= kKvTierCount || (counted_tiers_ >> tier & 1) == 0) {
    (*counts)[KvEventOutcome::kNotCounted] += event.block_ids.size();
    return;
  }
  const bool partial_group = event.group < 64 && (partial_groups_ >> event.group & 1) != 0;
  numbers_.clear();
  numbers_.reserve(event.block_ids.size());
  for (uint64_t id : event.block_ids) table_.PrefetchEntry(id, false);
  size_t removed = 0;
  for (uint64_t id : event.block_ids) {
    const EngineBlockTable::Place place = table_.FindPlace(id);
    EngineBlock* const block = place.block;
    if (block != nullptr && block->covers == 1 && block->more + block->piece == 0 &&
        block->tiers == TierBit(tier) && event.group == usual_group_) {  // most often
      index_.PrefetchBlock(block->number);
      numbers_.push_back(block->number);
      table_.Remove(place);
      ++removed;
      continue;
    }
    const uint32_t tiers_before = block == nullptr ? 0 : TiersOf(*block);
    if (block == nullptr || !TakeCopy(block, tier, event.group)) {
      ++(*counts)[partial_group ? KvEventOutcome::kNotCounted : KvEventOutcome::kAlreadyGone];
      continue;
    }
    const uint32_t tiers = TiersOf(*block);
    ++(*counts)[tiers == 0 ? KvEventOutcome::kRemoved : KvEventOutcome::kCopyRemoved];
    if (tiers == tiers_before) continue;
    if (block->piece != 0) {
      pieces_.SetTiers(block->number, tiers, now_nanos);
      continue;  // as long as pieces behind it are there, it stays in the table
    }
    AppendNumbers(*block);
    if (tiers == 0) table_.Remove(place);
  }
  (*counts)[KvEventOutcome::kRemoved] += removed;
  index_.RemoveCopies(slot_, {numbers_.data(), numbers_.size()}, tier);
  EraseFreedPieces();
}

void EngineBlocks::EraseFreedPieces() {
  for (uint64_t id : pieces_.freed_ids()) table_.Remove(table_.Find(id));
  pieces_.freed_ids().clear();
}

// ---- Copies ------------------------------------------------------------------------------------

uint32_t EngineBlocks::TiersOf(const EngineBlock& block) const {
  uint32_t tiers = block.tiers;
  if (block.more != 0) {
    for (const Copies& copies : more_copies_.find(block.id)->second) tiers |= 1u << copies.tier;
  }
  return tiers;
}

bool EngineBlocks::AddCopy(EngineBlock* block, uint32_t tier, uint32_t group) {
  if (group == usual_group_ && (block->tiers >> tier & 1) == 0) {
    block->tiers = (block->tiers | TierBit(tier)) & 0xfu;
    return true;
  }
  std::vector<Copies>* all = nullptr;
  if (block->more != 0) {
    all = &more_copies_.find(block->id)->second;
    for (Copies& copies : *all) {
      if (copies.tier != tier || copies.group != group) continue;
      ++copies.count;
      return true;
    }
  }
  const size_t list_bytes = all == nullptr ? 0 : CopiesBytes(all->size());
  if (!index_.MakeRoomForConfirmed(MapGrowthBound(more_copies_, 1) +
                                   CopiesBytes(all == nullptr ? 1 : all->size() + 1))) {
    return false;
  }
  using Map = decltype(more_copies_);
  const size_t map_before = more_copies_.capacity();
  std::vector<Copies>& list = more_copies_[block->id];
  index_.meter()->Adjust(MapBytes<Map>(map_before), MapBytes<Map>(more_copies_.capacity()));
  list.reserve(list.size() + 1);  // exactly: there are few
  list.push_back({tier, group, 1});
  index_.meter()->Adjust(list_bytes, CopiesBytes(list.size()));
  block->more = 1;
  return true;
}

bool EngineBlocks::TakeCopy(EngineBlock* block, uint32_t tier, uint32_t group) {
  if (block->more != 0) {
    const auto found = more_copies_.find(block->id);
    std::vector<Copies>& list = found->second;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].tier != tier || list[i].group != group) continue;
      if (--list[i].count != 0) return true;
      const size_t before = CopiesBytes(list.size());
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      list.shrink_to_fit();
      index_.meter()->Adjust(before, CopiesBytes(list.size()));
      if (list.empty()) {
        more_copies_.erase(found);
        block->more = 0;
        if (more_copies_.empty()) ForgetCopies();
      }
      return true;
    }
  }
  if (group != usual_group_ || (block->tiers >> tier & 1) == 0) return false;
  block->tiers = block->tiers & ~TierBit(tier) & 0xfu;
  return true;
}

void EngineBlocks::ForgetCopies() {
  using Map = decltype(more_copies_);
  for (const auto& [id, list] : more_copies_) index_.meter()->Adjust(CopiesBytes(list.size()), 0);
  index_.meter()->Adjust(MapBytes<Map>(more_copies_.capacity()), 0);
  more_copies_ = Map();
}

void EngineBlocks::AppendNumbers(const EngineBlock& block) {
  if (block.covers == 1) {
    numbers_.push_back(block.number);
    return;
  }
  const size_t before = numbers_.size();
  numbers_.resize(before + block.covers);
  index_.NumbersUpTo(block.number, {numbers_.data() + before, block.covers});
}

// ---- Events ------------------------------------------------------------------------------------

// The event's multimodal contents, with offsets from its first token. False when they are not of
// its blocks.
bool EngineBlocks::ReadMultimodal(const KvEvent& event) {
  items_.clear();
  for (size_t i = 0; i < event.multimodal.size(); ++i) {
    const KvMultimodal& item = event.multimodal[i];
    if (item.block >= event.block_ids.size()) return false;
    int64_t offset = item.offset;
    if (offset == KvMultimodal::kUnknownOffset) {
      // All blocks that the content reaches into name it: the first of them carries it. Where in
      // it is not known. If it is wrong, the block and what follows are just not matched.
      bool continued = false;
      for (size_t j = i; j-- > 0 && event.multimodal[j].block + 1 >= item.block;) {
        continued = continued || (event.multimodal[j].block + 1 == item.block &&
                                  event.multimodal[j].identifier == item.identifier);
      }
      if (continued) continue;
      offset = 0;
    }
    if (offset < 0) continue;
    if (offset >= event.block_size) return false;
    items_.push_back({uint64_t{item.block} * event.block_size + static_cast<uint64_t>(offset),
                      MultimodalHash(item.identifier)});
  }
  std::stable_sort(items_.begin(), items_.end(),
                   [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return true;
}

}  // namespace prefixrouter
