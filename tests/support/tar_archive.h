#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <string>
#include <vector>

/// One entry of an archive to create.
struct TarEntry {
  std::string path, text = {};
  int type = AE_IFREG;
  std::string link = {};  ///< the target of a symbolic link
  bool is_hard = false;   ///< `link` is the target of a hard link
  int mode = 0644;
};

/// A tar archive compressed with gzip, with names written as they are.
inline std::string tar_archive(const std::vector<TarEntry>& entries) {
  std::string bytes(std::size_t{4} << 20, '\0');
  std::size_t used = 0;
  archive* a = archive_write_new();
  archive_write_add_filter_gzip(a);
  archive_write_set_format_pax_restricted(a);
  archive_write_open_memory(a, bytes.data(), bytes.size(), &used);
  for (const TarEntry& one : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, one.path.c_str());
    archive_entry_set_filetype(entry, static_cast<unsigned>(one.type));
    archive_entry_set_perm(entry, static_cast<mode_t>(one.mode));
    if (one.is_hard) archive_entry_set_hardlink(entry, one.link.c_str());
    else if (!one.link.empty()) archive_entry_set_symlink(entry, one.link.c_str());
    else if (one.type == AE_IFREG)
      archive_entry_set_size(entry, static_cast<la_int64_t>(one.text.size()));
    archive_write_header(a, entry);
    if (!one.text.empty()) archive_write_data(a, one.text.data(), one.text.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
  bytes.resize(used);
  return bytes;
}
