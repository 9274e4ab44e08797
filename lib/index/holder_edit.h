#ifndef PREFIXROUTER_LIB_INDEX_HOLDER_EDIT_H_
#define PREFIXROUTER_LIB_INDEX_HOLDER_EDIT_H_

#include "lib/index/run.h"

namespace prefixrouter {

// The holder of a slot in a run while its segments are changed: keeps the holder's leading count
// and the run's number of full holders right, and drops a holder that has nothing left.
class HolderEdit {
 public:
  HolderEdit(Run* run, uint32_t position) : run_(run), position_(position) {
    first = run->holders.first(position);
    if (End() == run->length) --run->full_holders;
  }
  void Commit(MemoryMeter& meter, uint32_t slot_limit) {
    if (first == nullptr) {
      run_->holders.Remove(meter, position_, slot_limit);
      return;
    }
    if (End() == run_->length) ++run_->full_holders;
    uint32_t held = 0;
    for (const Segment* s = first; s != nullptr && s->begin == held; s = s->deeper) held = s->end;
    run_->holders.set_first(position_, first);
    run_->holders.set_held(position_, held);
  }

  Segment* first;

 private:
  uint32_t End() const {
    uint32_t end = 0;  // no run ends there
    for (const Segment* s = first; s != nullptr; s = s->deeper) end = s->end;
    return end;
  }

  Run* run_;
  uint32_t position_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_HOLDER_EDIT_H_
