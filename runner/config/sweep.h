#pragma once

#include <string>
#include <vector>

#include "runner/value/value.h"

namespace runner {

struct Override;

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
  std::vector<std::string> tags = {};  ///< tag(log,...), each once
  bool shuffle = false;                ///< in an order that follows from the sweep's seed

  std::vector<Value> choices = {};  ///< of the choices, in order

  /// Of a range: integers, booleans (0 or 1) or floats. Of an interval: start and stop only.
  Value start = {}, stop = {}, step = {};

  std::vector<Value> include = {}, exclude = {};  ///< of a glob: patterns

  /// Of a zip, and of a sweep over an alias of several keys: what each row sets.
  std::vector<std::vector<Override>> rows = {};
};

}  // namespace runner
