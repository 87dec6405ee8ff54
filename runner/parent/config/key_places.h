#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "runner/shared/value/value.h"

namespace runner {

/// Caches the positions of keys in large mappings, so that the thousandth override is applied as
/// fast as the first. Mappings are identified by their JSON pointers. Mappings may grow at their
/// ends; call forget() after any other change.
class KeyPlaces {
 public:
  Value* find(Value& mapping, const std::string& pointer, const std::string& key) {
    Value::Map& entries = *mapping.map();
    Places& places = places_[pointer];
    for (; places.known < entries.size(); ++places.known)
      places.by_key.emplace(entries[places.known].key, places.known);
    const auto found = places.by_key.find(key);
    return found == places.by_key.end() ? nullptr : &entries[found->second].value;
  }
  /// Forgets the mapping at `pointer`, and everything in it.
  void forget(const std::string& pointer) {
    std::erase_if(places_, [&](const auto& one) { return one.first.starts_with(pointer); });
  }

 private:
  struct Places {
    std::unordered_map<std::string, std::size_t> by_key;
    std::size_t known = 0;  ///< the number of entries indexed so far
  };
  std::unordered_map<std::string, Places> places_;
};

}  // namespace runner
