#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace stages {

/// A zip archive whose entries are not compressed, as torch writes them. All functions read `file`,
/// an open regular file, from its beginning, and throw std::invalid_argument saying what is wrong
/// with it, in half a sentence.
struct StoredEntry {
  std::int64_t size = 0;
  bool is_stored = false;
};

/// Its entries by name. No name appears twice.
std::map<std::string, StoredEntry> list_zip(int file);

/// Where the bytes of an entry go, as many as it has; nowhere: it is passed over.
using PlaceOf = std::function<std::span<char>(const std::string& name)>;

/// Reads the entries that `place_of` gives a place, in the order of the file, checks their
/// checksums, and calls `done` after each.
void read_zip(int file, const PlaceOf& place_of,
              const std::function<void(const std::string& name)>& done);

}  // namespace stages
