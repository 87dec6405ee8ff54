#pragma once

#include <filesystem>
#include <fstream>
#include <string>

/// Quotes `text` as one word for a shell.
inline std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != text.npos; at += 4)
    text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

/// Installs the program below `folder`, with a worker that plays the script `acts`
/// (fake_worker.cpp), in shell syntax. Returns its path.
inline std::filesystem::path install_with_worker(const std::filesystem::path& folder,
                                                 const std::string& acts) {
  namespace fs = std::filesystem;
  fs::create_directories(folder / "bin");
  fs::copy_file(RETORT_BINARY_DIR "/bin/retort", folder / "bin/retort");
  fs::create_directory_symlink(RETORT_BINARY_DIR "/share", folder / "share");
  const fs::path worker = folder / "bin/retort-worker";
  std::ofstream(worker) << "#!/bin/sh\nexec '" RETORT_FAKE_WORKER "' " + acts + '\n';
  fs::permissions(worker, fs::perms::owner_all);
  return folder / "bin/retort";
}
