#include "lib/index/piece_tree.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace prefixrouter {
namespace {

template <typename T>
size_t GrownCapacity(const std::vector<T>& vector) {
  return std::max<size_t>(16, vector.capacity() * 2);
}
template <typename T>
size_t GrownBytes(const std::vector<T>& vector) {
  return vector.size() + 1 < vector.capacity() ? 0
                                               : AllocationBytes(GrownCapacity(vector) * sizeof(T));
}

template <typename T>
void Grow(MemoryMeter& meter, std::vector<T>& vector, size_t capacity) {
  const size_t before = AllocationBytes(vector.capacity() * sizeof(T));
  vector.reserve(capacity);
  meter.Adjust(before, AllocationBytes(vector.capacity() * sizeof(T)));
}

template <typename T>
void Reset(MemoryMeter& meter, std::vector<T>& vector) {
  meter.Adjust(AllocationBytes(vector.capacity() * sizeof(T)), 0);
  vector = std::vector<T>();
}

}  // namespace

PieceNumber PieceTree::Add(PieceNumber parent, uint64_t root_key, uint64_t id,
                           Span<const uint32_t> tokens, Span<const MultimodalItem> items) {
  const size_t size = Size(tokens.size(), items.size());
  if (!index_.MakeRoomForConfirmed(AllocationBytes(size) + 2 * GrownBytes(pieces_))) return 0;
  MemoryMeter& meter = *index_.meter();
  PieceNumber number;
  if (free_.empty()) {
    if (pieces_.size() + 1 >= pieces_.capacity()) {
      // Among the free ones there is a place for each, so that freeing never needs memory.
      Grow(meter, free_, GrownCapacity(pieces_));
      Grow(meter, pieces_, GrownCapacity(pieces_));
    }
    if (pieces_.empty()) pieces_.push_back(nullptr);
    number = static_cast<PieceNumber>(pieces_.size());
    pieces_.push_back(nullptr);
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Piece* const piece = new (meter.Allocate(size)) Piece();
  pieces_[number] = piece;
  ++gap_count_;
  piece->id = id;
  piece->parent = parent;
  piece->size = static_cast<uint32_t>(tokens.size());
  piece->item_count = static_cast<uint32_t>(items.size());
  std::copy_n(tokens.data(), tokens.size(), piece->tokens());
  piece->key = root_key;
  if (parent != 0) {
    Piece& before = *pieces_[parent];
    const uint32_t end = before.begin + before.size;
    piece->begin = end == hasher_.block_size() ? 0 : end;
    piece->next_sibling = before.first_child;
    before.first_child = number;
    piece->key = before.key;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    piece->items()[i] = {items[i].offset + piece->begin, items[i].content_hash};
  }
  if (Completes(*piece)) piece->key = KeyOfBlock(*piece, piece->key);
  return number;
}

uint32_t PieceTree::Room(PieceNumber number) const {
  const uint32_t block_size = hasher_.block_size();
  if (number == 0 || Completes(*pieces_[number])) return block_size;
  return block_size - pieces_[number]->begin - pieces_[number]->size;
}

uint64_t PieceTree::KeyOfBlock(Piece& last, uint64_t previous) {
  tokens_.resize(hasher_.block_size());
  items_.clear();
  for (Piece* piece = &last;; piece = pieces_[piece->parent]) {
    std::copy_n(piece->tokens(), piece->size, tokens_.data() + piece->begin);
    items_.insert(items_.begin(), piece->items(), piece->items() + piece->item_count);
    if (piece->begin == 0) break;
  }
  uint64_t key;
  hasher_.ExtendKeys(previous, reinterpret_cast<const unsigned char*>(tokens_.data()),
                     tokens_.size() * sizeof(uint32_t), 0, {items_.data(), items_.size()},
                     sizeof(uint32_t), {&key, 1});
  return key;
}

bool PieceTree::SetTiers(PieceNumber number, uint32_t tiers, int64_t now_nanos) {
  if (pieces_[number]->tiers == 0) --gap_count_;
  if (tiers == 0) ++gap_count_;
  pieces_[number]->tiers = tiers;
  bool room = true;
  pending_.assign(1, number);
  while (!pending_.empty()) {
    Piece& piece = *pieces_[pending_.back()];
    pending_.pop_back();
    if (Completes(piece)) {
      const bool was_there = piece.number != 0;
      room = Update(piece, now_nanos) && room;
      if (was_there || piece.number == 0) continue;  // nothing new for the blocks behind it
    }
    for (PieceNumber child = piece.first_child; child != 0; child = pieces_[child]->next_sibling) {
      pending_.push_back(child);
    }
  }
  if (tiers == 0) Free(number);
  return room;
}

bool PieceTree::Update(Piece& last, int64_t now_nanos) {
  // In the best tier of its worst piece.
  bool whole = true;
  uint32_t tier = 0;
  Piece* piece = &last;
  for (;; piece = pieces_[piece->parent]) {
    if (piece->tiers == 0) {
      whole = false;
    } else {
      tier = std::max(tier, static_cast<uint32_t>(std::countr_zero(piece->tiers)));
    }
    if (piece->begin == 0) break;
  }
  if (whole && last.number == 0) {
    BlockNumber before = 0;
    if (piece->parent != 0) {
      before = pieces_[piece->parent]->number;
      if (before == 0) return true;  // it waits
    }
    if (!index_.Store(slot_, before, {&last.key, 1}, tier, now_nanos, {&last.number, 1})) {
      last.number = 0;
      return false;
    }
    last.number_tier = tier;
    return true;
  }
  if (last.number == 0 || (whole && tier == last.number_tier)) return true;
  const BlockNumber number = last.number;
  if (whole && index_.AddCopies(slot_, {&number, 1}, tier, now_nanos) == 0) return false;
  index_.RemoveCopies(slot_, {&number, 1}, last.number_tier);
  if (whole) {
    last.number_tier = tier;
  } else {
    last.number = 0;
  }
  return true;
}

void PieceTree::Free(PieceNumber number) {
  MemoryMeter& meter = *index_.meter();
  while (number != 0) {
    Piece* const piece = pieces_[number];
    if (piece->tiers != 0 || piece->first_child != 0) return;
    const PieceNumber parent = piece->parent;
    if (parent != 0) {
      PieceNumber* link = &pieces_[parent]->first_child;
      while (*link != number) link = &pieces_[*link]->next_sibling;
      *link = piece->next_sibling;
    }
    freed_ids_.push_back(piece->id);
    --gap_count_;
    meter.Free(piece, Size(piece->size, piece->item_count));
    pieces_[number] = nullptr;
    free_.push_back(number);
    number = parent;
  }
}

void PieceTree::Clear() {
  MemoryMeter& meter = *index_.meter();
  for (Piece* piece : pieces_) {
    if (piece != nullptr) meter.Free(piece, Size(piece->size, piece->item_count));
  }
  Reset(meter, pieces_);
  Reset(meter, free_);
  freed_ids_.clear();
  gap_count_ = 0;
}

size_t PieceTree::bytes() const {
  size_t bytes = AllocationBytes(pieces_.capacity() * sizeof(Piece*)) +
                 AllocationBytes(free_.capacity() * sizeof(PieceNumber));
  for (const Piece* piece : pieces_) {
    if (piece != nullptr) bytes += AllocationBytes(Size(piece->size, piece->item_count));
  }
  return bytes;
}

}  // namespace prefixrouter
