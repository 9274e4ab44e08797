// PrefixIndex: which instance holds how many leading blocks of a prompt.
//
// It is a path-compressed radix tree over block keys. A *run* is a stretch of consecutive blocks
// without a branch and keeps their keys in one array. Because keys are chained, each stands for the
// whole prefix before it: a run is found by one look-up of its first key, and all of it is verified
// by comparing its last key (or chunk key, see prompt_keys.h); where a prompt leaves a run is found
// by binary search. Each run knows its *holders*: slot (= instance) -> leading blocks held.
//
//     run [0,40) keys[40]  holders: A 40, B 40, C 12        "system prompt"
//      |-- run [40,700)    holders: A 660                   "conversation 1"
//      `-- run [40,95)     holders: A 55, B 30              "conversation 2"
//
// So a match costs O(runs on the path), not O(blocks), and memory is about one key (8 bytes) a
// block however many instances hold it.
//
// Invariants:
//  1. For every slot, the match of a prompt is the longest contiguous run of leading blocks that
//  the
//     slot holds. A block behind a hole never counts, and counts again when the hole is filled.
//  2. A run has no child or at least two: with one left, it is merged with it. A run without
//     children ends where its longest holder ends. So the runs are a function of what is held.
//  3. Predicted residency. Blocks used by one operation share a time; per slot, the least recently
//     used goes first, and of equally old ones the deepest. As each use covers a prefix, what is
//     evicted is always a leaf of the slot's tree. A slot never holds more predicted blocks than
//     its capacity. Blocks of running requests (pinned) are not evicted: what finds no room beside
//     them is not remembered.
//  4. Confirmed residency. Blocks that the engine reported stay until it reports their removal:
//  they
//     are not evicted. A block may be stored in several tiers, and several times in one (copies),
//     and is gone with the last one. Holes are possible.
//  5. Memory stays within the budget: room is made before anything is added, by forgetting the
//  least
//     recently used predicted blocks of the whole index, in O(forgotten) and O(log slots) a
//     segment.
//  6. Removing a slot removes all that it held. There is no cap on the holders of a block.
//
// A slot's blocks in a run are kept as *segments*, stretches of one age. Each slot has three lists
// of them: unpinned predicted ones by age (for its capacity), pinned ones, and confirmed ones.
// Within one operation deeper segments are linked first, so list order is (age, depth from the
// deepest). For the budget, the oldest of all is the oldest head of all slots' lists.
//
// A run that loses its end to a slot's capacity will most often lose more when the slot evicts
// next. Its arrays keep their size meanwhile (`spare`): to copy what is left would take longer than
// all else that an eviction does. They are made to fit when anything else happens to the run, and
// before anything is evicted for the budget. Such a run has no children and one holder, whose last
// segment is the oldest of its slot: so they are found.
//
// A run or segment that is divided keeps its identity in the *deeper* part: children keep their
// parent, and a lease, whose pinned prefix ends where its segment ends, keeps its segment.
//
// Not thread-safe: the router's lock is held around every call. Times are nanoseconds and must not
// step back. May throw std::bad_alloc, then with the index in an undefined state; with the budget
// below the memory of the machine it does not.
#ifndef PREFIXROUTER_LIB_INDEX_PREFIX_INDEX_H_
#define PREFIXROUTER_LIB_INDEX_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "lib/base/vector.h"
#include "lib/hash/prompt_keys.h"
#include "lib/index/block_table.h"
#include "lib/index/run.h"
#include "lib/index/run_table.h"
#include "lib/index/segment_list.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

// A run on the way of a prompt, and how many of its blocks are on that way.
struct PathStep {
  Run* run;
  uint32_t blocks;
};

// Where a prompt leads in the index, and who holds how much of it. Valid until the index changes.
// Best used again and again, by one thread at a time: it keeps its memory.
struct Path {
  absl::InlinedVector<PathStep, 16> steps;
  uint32_t blocks = 0;    // leading blocks that any slot holds, or that lead to held ones
  uint64_t last_key = 0;  // key of the last of them, or the prompt's root key
  // The path ends at a long run without chunk keys: it may go on, but all block keys of the prompt
  // are needed to say so. Only when they are not there.
  bool needs_block_keys = false;
  LineVector<uint32_t> matched;  // by slot: the leading blocks of the prompt that it holds
  // Where what Insert frees goes, for the caller to free, best when its lock is released; may be
  // null.
  Garbage* garbage = nullptr;
};

// Where a prompt leaves what it shares with other prompts.
struct Branch {
  uint32_t start = 0;  // its first block that is not shared
  uint64_t key = 0;    // of that block; 0: there is none
};

// The pinned prefix of a running request. Plain data; harmless once its slot is gone.
struct PinnedPrefix {
  Segment* segment = nullptr;  // ends where the prefix ends; null when nothing was pinned
  uint32_t slot = 0;
  uint64_t epoch = 0;
};

struct InsertResult {
  uint32_t held_blocks = 0;  // leading blocks of the prompt that the slot holds now
  PinnedPrefix pinned;
};

class PrefixIndex {
 public:
  static constexpr uint32_t kTierCount = 4;

  explicit PrefixIndex(size_t budget_bytes);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // ---- Slots ----------------------------------------------------------------------------------

  // A slot that holds nothing. ttl_nanos: age at which its predicted blocks are forgotten; 0:
  // never. REQUIRES: the slot is not in use.
  void AddSlot(uint32_t slot, uint64_t capacity_blocks, int64_t ttl_nanos = 0);
  // Forgets all that it held. No effect on an unused slot.
  void RemoveSlot(uint32_t slot);
  // Evicts down to a smaller capacity at once.
  void SetCapacity(uint32_t slot, uint64_t capacity_blocks);
  // From now on predicted blocks of the slot last for ttl_nanos and are not pinned; pins end.
  // REQUIRED before its first Store.
  void SetConfirmed(uint32_t slot, int64_t ttl_nanos);
  // Predicted blocks of the slot that were used at since_nanos or later do not expire. INT64_MAX:
  // all do.
  void AwaitSince(uint32_t slot, int64_t since_nanos);

  // One more than the highest slot ever used.
  uint32_t slot_limit() const { return static_cast<uint32_t>(slots_.size()); }
  bool HasSlot(uint32_t slot) const { return slot < slots_.size() && slots_[slot].in_use; }
  uint64_t capacity_blocks(uint32_t slot) const { return slots_[slot].capacity_blocks; }
  uint64_t held_blocks(uint32_t slot) const { return slots_[slot].held_blocks; }

  // ---- Match ----------------------------------------------------------------------------------

  // Whether some prompt that begins with the block of this key is known.
  bool KnowsFirstBlock(uint64_t key) const { return table_.Find(key) != nullptr; }

  // Fills the path. O(runs on the path + their holders), plus one vector pass over the slots.
  // Hashes less than a chunk of blocks a run; where more is needed it stops, with
  // path->needs_block_keys, unless hash_any is set.
  void Match(const PromptKeys& prompt, Path* path, bool hash_any = false);

  // The run that the prompt ends in, or would when it is inserted, begins with its branch; there is
  // none when all of it is shared. So it is the same for all turns of a session that only grows,
  // and in every index that knows what they share with others. (Of one that was rewritten, those
  // that have seen it find another.) REQUIRES: `path` is of Match(prompt), with nothing in between
  // and whole.
  static Branch BranchOf(const PromptKeys& prompt, const Path& path);

  // ---- Predicted residency --------------------------------------------------------------------

  // Remembers that `slot` has the prompt cached, as far as its capacity and the budget allow.
  // `path` is of Match(prompt), with nothing in between and whole. Best with the keys of just the
  // blocks behind path->blocks computed: the index takes their memory over. Those that are not
  // there are hashed here. With pin, the prefix is not evicted until Unpin. REQUIRES: the slot is
  // in use.
  InsertResult Insert(uint32_t slot, PromptKeys& prompt, Path* path, int64_t now_nanos, bool pin);
  // Asks for what Insert of a known prompt will write: others have often just written it.
  void PrefetchInsert(uint32_t slot, const Path& path) const;
  // Likewise for what Insert will evict to make room for so many blocks, if it has to. To be called
  // in this order, with something in between: each finds what it asks for in what came before.
  void PrefetchOldest(uint32_t slot, uint64_t blocks) const;
  void PrefetchOldestRun(uint32_t slot, uint64_t blocks) const;
  // Ends a pin; the prefix counts as used now.
  void Unpin(const PinnedPrefix& pinned, int64_t now_nanos);

  // Forgets predicted blocks that are older than their slot's TTL.
  void Expire(int64_t now_nanos) {
    if (now_nanos >= next_expiry_nanos_) ExpireSlots(now_nanos);
  }

  // ---- Confirmed residency --------------------------------------------------------------------

  // Tiers are numbered from the quickest, as KvTier is.

  // The engine has stored the blocks `keys` in `tier`, the first of them behind block `parent` (0:
  // it is the first of a prompt). Writes the number of each. Those that the slot had stored there
  // get one more copy. False, and nothing is changed, when the budget has no room for them and for
  // `more_bytes`. REQUIRES: parent is confirmed; numbers.size() == keys.size().
  bool Store(uint32_t slot, BlockNumber parent, Span<const uint64_t> keys, uint32_t tier,
             int64_t now_nanos, Span<BlockNumber> numbers, size_t more_bytes = 0);
  // One more copy of each of these blocks in `tier`. Outcomes as for Store, but those before one
  // that finds no room have their copy; returns how many have. REQUIRES: the slot has stored them.
  size_t AddCopies(uint32_t slot, Span<const BlockNumber> blocks, uint32_t tier, int64_t now_nanos);
  // One copy of each of these blocks in `tier` is gone. Quick for blocks that follow one another,
  // up or down. Holes take memory: bytes() may be above the budget then, until the slot is cleared.
  // REQUIRES: the slot has stored them there as often.
  void RemoveCopies(uint32_t slot, Span<const BlockNumber> blocks, uint32_t tier);
  // The engine has removed everything.
  void Clear(uint32_t slot);

  uint64_t KeyOf(BlockNumber number) const {
    const BlockTable::Location& at = blocks_[number];
    return at.run->keys[at.depth - at.run->start];
  }
  // Whether only one slot has confirmed the block.
  bool HeldByOne(BlockNumber number) const { return blocks_[number].slots == 1; }
  // The numbers of the blocks that end with `last`; 0 for those that no slot has stored.
  void NumbersUpTo(BlockNumber last, Span<BlockNumber> numbers) const;
  // Ask for what Store behind a block and RemoveCopies of it read, each for what it finds by means
  // of the one before. REQUIRES: the block is confirmed; not so for the first and the last.
  void PrefetchBlock(BlockNumber number) const { blocks_.PrefetchLocation(number); }
  void PrefetchRun(BlockNumber number) const { Prefetch(blocks_[number].run, sizeof(Run)); }
  void PrefetchRunParts(BlockNumber number) const;
  void PrefetchChild(uint64_t first_key) const { table_.PrefetchBucket(first_key); }
  // Before a Store of `count` blocks.
  void PrefetchNumbers(size_t count) const { blocks_.PrefetchFree(count); }

  // Whether any slot has blocks that are not in the best tier.
  bool HasLowerTiers() const { return lower_tiers_ != 0; }
  bool HasLowerTiers(uint32_t slot) const {
    return held_blocks(slot) != slots_[slot].predicted_blocks + slots_[slot].tier_blocks[0];
  }
  // The blocks of the path that the slot holds without a hole, each times the weight of its best
  // tier. Predicted ones count whole.
  double Credit(const Path& path, uint32_t slot, const double (&weights)[kTierCount]) const;
  // Confirmed blocks by their best tier.
  const uint64_t (&tier_blocks(uint32_t slot) const)[kTierCount] {
    return slots_[slot].tier_blocks;
  }

  // For what belongs to the slots' blocks and counts in the budget, though others keep it. Makes
  // room for as much more: false when there is none.
  MemoryMeter* meter() { return &meter_; }
  bool MakeRoomForConfirmed(size_t bytes) { return MakeBytes(bytes + budget_bytes_ / kReserve); }
  // Whether there is that room already.
  bool HasRoomForConfirmed(size_t bytes) const {
    return meter_.bytes() + bytes + budget_bytes_ / kReserve <= budget_bytes_;
  }

  // ---- Sizes ----------------------------------------------------------------------------------

  size_t bytes() const { return meter_.bytes(); }
  // No run has spare memory afterwards.
  void ReturnSpare();
  size_t budget_bytes() const { return budget_bytes_; }
  size_t run_count() const { return table_.size(); }
  uint64_t block_count() const { return block_count_; }  // distinct blocks
  uint64_t total_held_blocks() const { return total_held_blocks_; }
  uint64_t evicted_blocks() const { return evicted_blocks_; }
  uint64_t budget_evicted_blocks() const { return budget_evicted_blocks_; }
  uint64_t not_remembered_blocks() const { return not_remembered_blocks_; }

 private:
  friend class IndexInspector;  // tests: walks everything and checks the invariants

  struct alignas(64) Slot {
    // What insertion and eviction use: one cache line.
    uint64_t capacity_blocks = 0;
    uint64_t held_blocks = 0;
    uint64_t predicted_blocks = 0;
    SegmentList unpinned;
    int64_t ttl_nanos = 0;
    uint64_t epoch = 0;  // changes when everything it held is forgotten, or its pins end
    bool in_use = false;
    bool in_ages = false;
    bool in_spares = false;
    bool pins_allowed = true;

    int64_t awaited_since_nanos = INT64_MAX;  // what was used since then does not expire
    SegmentList pinned;
    SegmentList confirmed;
    uint64_t tier_blocks[kTierCount] = {};  // confirmed ones, by their best tier
    // Copies beyond the first of a confirmed block in one tier. Rare.
    absl::flat_hash_map<std::pair<BlockNumber, uint32_t>, uint32_t> extra_copies;
  };
  // Share of the budget that confirmed blocks leave for the holes that removals make, and for runs
  // that are merged.
  static constexpr size_t kReserve = 32;

  // Structure: prefix_index.cc.
  uint32_t MatchRun(const Run& run, const PromptKeys& prompt, bool hash_any,
                    bool* needs_block_keys) const;
  static void AddMatches(const Run& run, uint32_t blocks, LineVector<uint32_t>* matches);
  Run* NewRun(Run* parent, uint32_t start, uint64_t first_key);
  // Makes blocks [0, at) of the run a run of their own, which is returned; `run` keeps the rest.
  Run* Split(Run* run, uint32_t at);
  // Joins a run with its only child, whose identity is kept.
  void MergeWithOnlyChild(Run* run);
  // Restores invariant 2 after `run` has lost holders. May free it and merge its parent.
  void Trim(Run* run, bool may_spare = false);
  void SetLength(Run* run, uint32_t length, bool may_spare = false);
  // Gives spare memory back. To be called before anything is done to the run but trimming it.
  void Fit(Run* run) {
    if (run->spare != 0) ResizeArrays(run, run->length);
  }
  void ResizeArrays(Run* run, uint32_t length);
  // Adds blocks behind the path and extends the path by them. Chunk keys come from the prompt, if
  // any, and so does the memory if it is of just these keys.
  void Append(Path* path, Span<const uint64_t> keys, PromptKeys* prompt);
  void LearnChunkKeys(Run* run, const PromptKeys& prompt);
  size_t PathBytesBound(uint32_t slot, const Path& path) const;
  size_t ChunkKeyBytesBound(const Path& path, const PromptKeys& prompt) const;
  size_t AppendBytesBound(const Path& path, uint32_t new_blocks, const PromptKeys* prompt) const;

  // Residency: residency.cc.
  SegmentList& ListOf(const Segment* segment);
  void Link(Segment* segment);
  void Unlink(Segment* segment);
  void Count(const Segment& segment, int64_t blocks);
  Segment* NewSegment(Run* run, uint32_t slot, uint32_t begin, uint32_t end);
  // The segment is used: it becomes the newest of its list.
  void Use(Segment* segment, uint32_t pin, int64_t now_nanos);
  // Divides a segment at run position `at`; the new one is the shallower part.
  Segment* Cut(Segment* segment, uint32_t at);
  // Joins neighbours of the same kind; takes and returns the holder's first segment.
  Segment* JoinSegments(Segment* first);
  void Touch(Run* run, uint32_t slot, uint32_t blocks, uint32_t pin, int64_t now_nanos);
  // Takes blocks [begin, end) of the run from the slot and trims the run. may_spare: its arrays may
  // keep their size, because more of it is likely to go next.
  void Drop(Run* run, uint32_t slot, uint32_t begin, uint32_t end, bool may_spare = false);
  void DropAll(Slot& slot);
  void EndPins(Slot& slot);
  // Makes room for `blocks` more predicted blocks; returns for how many there is room, without
  // touching what the current operation has used.
  uint64_t MakeRoom(Slot& slot, uint64_t blocks);
  // Whether that needs no eviction.
  bool HasRoom(uint32_t slot, uint64_t blocks) const;
  // The least recently used predicted segment that is not pinned; null when there is none.
  Segment* OldestOfAll();
  // Asks for some of the memory that evicting what comes after `oldest` will touch.
  void PrefetchNextOf(const Segment* oldest) const;
  // Makes room for `bytes` more in the budget by evicting what no operation since has used. False
  // when that is not enough.
  bool MakeBytes(size_t bytes);
  // Evicts until the budget holds.
  void EnforceBudget();
  void ExpireSlots(int64_t now_nanos);

  // Confirmed blocks: confirmed.cc.
  // Blocks [begin, end) of the run are stored on the slot in `tier`.
  void Confirm(Run* run, uint32_t slot, uint32_t begin, uint32_t end, uint32_t tier,
               int64_t now_nanos);
  // Blocks [begin, end), all of which the slot has in `tier`, are not there any more.
  void LeaveTier(Run* run, uint32_t slot, uint32_t begin, uint32_t end, uint32_t tier);
  // One more slot, or one less, has confirmed blocks [begin, end) of the run.
  void TakeNumbers(Run* run, uint32_t begin, uint32_t end);
  void ReleaseNumbers(Run* run, uint32_t begin, uint32_t end);
  // Numbers when a run is divided, and when two become one: called when the keys have been moved.
  void SplitNumbers(Run* run, uint32_t at, Run* upper);
  void MergeNumbers(Run* run, Run* child);
  // An upper bound of the memory of numbers and copies when `blocks` more blocks may get a number
  // and `known` blocks of the path may get a copy.
  size_t ConfirmBytesBound(uint32_t slot, const Path& path, size_t blocks, size_t known) const;
  void AddExtraCopy(Slot& slot, BlockNumber number, uint32_t tier);
  bool TakeExtraCopy(Slot& slot, BlockNumber number, uint32_t tier);
  void ForgetExtraCopies(Slot& slot);

  // What every operation writes is apart from what it reads: other processors have to fetch it
  // anew.
  alignas(64) MemoryMeter meter_;
  uint64_t operation_ = 0;
  uint64_t block_count_ = 0;
  uint64_t total_held_blocks_ = 0;
  uint64_t evicted_blocks_ = 0;
  uint64_t budget_evicted_blocks_ = 0;
  uint64_t not_remembered_blocks_ = 0;

  alignas(64) const size_t budget_bytes_;
  RunTable table_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> position_of_slot_;  // scratch of MergeWithOnlyChild, all 0 in between
  // Binary heap of slots by the age of the oldest segment that is not pinned, for the budget. Put
  // right when it is asked: an entry's operation may be lower than the truth, never higher, and a
  // slot without such a segment may be there.
  struct SlotAge {
    uint64_t operation;
    uint32_t slot;
    bool operator<(const SlotAge& other) const { return operation > other.operation; }
  };
  std::vector<SlotAge> ages_;
  std::vector<uint32_t> spares_;  // slots whose oldest segment may lie in a run with spare memory
  BlockTable blocks_;             // confirmed ones
  uint32_t lower_tiers_ = 0;      // (slot, tier) pairs with blocks, but for the best tier
  uint64_t next_epoch_ = 1;
  int64_t next_expiry_nanos_ = INT64_MAX;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_PREFIX_INDEX_H_
