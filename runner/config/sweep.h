#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/value.h"

namespace runner {

/// Several values for one key, of which each run of a sweep takes one.
struct Sweep {
  enum class Kind {
    kSimpleChoice,  ///< a,b,c
    kChoice,        ///< choice(a,b,c)
    kRange,         ///< range(start,stop,step): half open
    kInterval,      ///< interval(start,end): for optimisers only
    kGlob,          ///< glob(include,exclude): option names of the key's group
    kZip,           ///< zip(a=[..],b=[..]): rows that set several keys at once; the override's key names the dimension
  };
  Kind kind = Kind::kSimpleChoice;
  Location where = {};
  std::vector<std::string> tags = {};  ///< tag(log,...)
  bool shuffle = false;                ///< in an order that follows from the sweep's seed

  std::vector<Value> choices = {};  ///< of the choices, in order

  Value start = {}, stop = {}, step = {};  ///< of a range or an interval: integers or floats; null where not written

  std::vector<std::string> include = {}, exclude = {};  ///< of a glob: patterns

  /// Of a zip: keys as typed, each with as many values as the others.
  std::vector<std::pair<std::string, std::vector<Value>>> columns = {};
};

}  // namespace runner
