#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace stages {

/// An entry of a zip archive with uncompressed entries, as torch writes it. The functions below
/// read `file`, an open regular file, from its beginning, and throw std::invalid_argument with a
/// clause that describes the error.
struct StoredEntry {
  std::int64_t size = 0;
  bool is_stored = false;
};

/// Returns the entries by name. Throws if a name occurs twice.
std::map<std::string, StoredEntry> list_zip(int file);

/// Returns the destination for an entry's bytes, of the entry's size; empty to skip the entry.
using PlaceOf = std::function<std::span<char>(const std::string& name)>;

/// Reads the entries for which `place_of` returns a destination, in file order, verifies their
/// checksums, and calls `done` after each.
void read_zip(int file, const PlaceOf& place_of,
              const std::function<void(const std::string& name)>& done);

}  // namespace stages
