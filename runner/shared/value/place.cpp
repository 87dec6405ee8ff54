#include "runner/shared/value/place.h"

namespace runner {

const Location& place_of(const Value& value) {
  const Value* const kind = value.map() ? value.find("kind") : nullptr;
  const bool is_elsewhere = kind && !kind->is_default && kind->where.source && kind->where.source != value.where.source;
  return is_elsewhere ? kind->where : value.where;
}

}  // namespace runner
