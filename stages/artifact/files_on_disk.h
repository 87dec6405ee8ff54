#pragma once

#include <filesystem>

namespace stages {

/// A dataset of which each sample is a file. It is one Dataset beside that.
class FilesOnDisk {
 public:
  virtual ~FilesOnDisk() = default;
  /// The folder that Dataset::sample_name() counts from; empty: the samples are no files after all.
  virtual std::filesystem::path root() const = 0;
};

}  // namespace stages
