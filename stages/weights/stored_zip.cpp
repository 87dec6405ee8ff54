#include "stages/weights/stored_zip.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include "runner/shared/text/printable.h"

namespace stages {
namespace {

// Uses libarchive rather than the reader in LibTorch. libarchive does not allocate memory for
// claimed sizes, returns large entries in pieces, verifies checksums, and has been fuzzed for
// years. LibTorch's reader unpacks an entry when it opens a file, whatever size the entry claims.
using Archive =
    std::unique_ptr<archive, decltype([](archive* opened) { archive_read_free(opened); })>;

[[noreturn]] void refuse(archive* opened) {
  const char* why = archive_error_string(opened);
  throw std::invalid_argument(std::string("it is not a valid zip archive") +
                              (why ? std::string(": ") + why : ""));
}

Archive open(int file) {
  constexpr std::size_t kPiece = 1 << 20;
  Archive opened(archive_read_new());
  if (!opened || ::lseek(file, 0, SEEK_SET) != 0) throw std::invalid_argument("it cannot be read");
  if (archive_read_support_format_zip_seekable(opened.get()) != ARCHIVE_OK) refuse(opened.get());
  if (archive_read_open_fd(opened.get(), file, kPiece) != ARCHIVE_OK) refuse(opened.get());
  return opened;
}

/// Returns the next entry; null after the last.
archive_entry* next(archive* opened) {
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(opened, &entry);
  if (result == ARCHIVE_EOF) return nullptr;
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN) refuse(opened);
  return entry;
}

std::string name_of(archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (!name) name = archive_entry_pathname_utf8(entry);
  return name ? name : "";
}

void read_entry(archive* opened, std::span<char> place) {
  std::size_t reached = 0;
  for (;;) {
    const void* piece = nullptr;
    std::size_t bytes = 0;
    la_int64_t at = 0;
    const int result = archive_read_data_block(opened, &piece, &bytes, &at);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK) refuse(opened);
    if (static_cast<std::size_t>(at) != reached || bytes > place.size() - reached) refuse(opened);
    std::copy_n(static_cast<const char*>(piece), bytes, place.data() + reached);
    reached += bytes;
  }
  if (reached != place.size()) refuse(opened);
}

}  // namespace

std::map<std::string, StoredEntry> list_zip(int file) {
  std::map<std::string, StoredEntry> entries;
  const Archive opened = open(file);
  while (archive_entry* entry = next(opened.get())) {
    if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0) refuse(opened.get());
    const bool is_stored =
        std::string_view(archive_format_name(opened.get())).ends_with("(uncompressed)");
    const StoredEntry listed{archive_entry_size(entry),
                             is_stored && !archive_entry_is_encrypted(entry)};
    if (!entries.emplace(name_of(entry), listed).second) {
      throw std::invalid_argument("its entry '" + runner::printable_ascii(name_of(entry)) +
                                  "' appears twice");
    }
  }
  return entries;
}

void read_zip(int file, const PlaceOf& place_of,
              const std::function<void(const std::string& name)>& done) {
  const Archive opened = open(file);
  while (archive_entry* entry = next(opened.get())) {
    const std::string name = name_of(entry);
    const std::span<char> place = place_of(name);
    if (place.empty()) continue;
    read_entry(opened.get(), place);
    done(name);
  }
}

}  // namespace stages
