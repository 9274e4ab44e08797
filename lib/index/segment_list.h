// SegmentList: segments of one slot in the order of their use, least recently used first. Intrusive
// and doubly linked.
#ifndef PREFIXROUTER_LIB_INDEX_SEGMENT_LIST_H_
#define PREFIXROUTER_LIB_INDEX_SEGMENT_LIST_H_

#include "lib/index/run.h"

namespace prefixrouter {

class SegmentList {
 public:
  Segment* oldest() const { return oldest_; }
  Segment* newest() const { return newest_; }

  void PushNewest(Segment* segment) { InsertAfter(newest_, segment); }
  // Takes `segment` in right behind `before`, or as the oldest when `before` is null.
  void InsertAfter(Segment* before, Segment* segment) {
    Segment* const after = before == nullptr ? oldest_ : before->next;
    segment->previous = before;
    segment->next = after;
    (before == nullptr ? oldest_ : before->next) = segment;
    (after == nullptr ? newest_ : after->previous) = segment;
  }
  void Remove(Segment* segment) {
    Segment* const before = segment->previous;
    Segment* const after = segment->next;
    (before == nullptr ? oldest_ : before->next) = after;
    (after == nullptr ? newest_ : after->previous) = before;
  }

 private:
  Segment* oldest_ = nullptr;
  Segment* newest_ = nullptr;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_SEGMENT_LIST_H_
