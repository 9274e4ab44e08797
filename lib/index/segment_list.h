// SegmentList: segments in the order of their use, least recently used first. Intrusive and doubly
// linked; which pair of links of the Segment is used is a template argument, so that a segment can
// be in one list of its slot and in one of the whole index.
#ifndef PREFIXROUTER_LIB_INDEX_SEGMENT_LIST_H_
#define PREFIXROUTER_LIB_INDEX_SEGMENT_LIST_H_

#include "lib/index/run.h"

namespace prefixrouter {

template <Segment* Segment::*kPrevious, Segment* Segment::*kNext>
class SegmentList {
 public:
  Segment* oldest() const { return oldest_; }

  void PushNewest(Segment* segment) { InsertAfter(newest_, segment); }
  // Takes `segment` in right behind `before`, or as the oldest when `before` is null.
  void InsertAfter(Segment* before, Segment* segment) {
    Segment* after = before == nullptr ? oldest_ : before->*kNext;
    segment->*kPrevious = before;
    segment->*kNext = after;
    (before == nullptr ? oldest_ : before->*kNext) = segment;
    (after == nullptr ? newest_ : after->*kPrevious) = segment;
  }
  void Remove(Segment* segment) {
    Segment* before = segment->*kPrevious;
    Segment* after = segment->*kNext;
    (before == nullptr ? oldest_ : before->*kNext) = after;
    (after == nullptr ? newest_ : after->*kPrevious) = before;
  }

 private:
  Segment* oldest_ = nullptr;
  Segment* newest_ = nullptr;
};

using SlotList = SegmentList<&Segment::slot_previous, &Segment::slot_next>;
using AllList = SegmentList<&Segment::all_previous, &Segment::all_next>;

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_SEGMENT_LIST_H_
