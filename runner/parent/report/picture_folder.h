#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/write_error.h"

namespace runner {

/// The folder that pictures are written to; made where it is not there. A picture takes the place of an older one of
/// its name.
class PictureFolder {
 public:
  /// Throws WriteError.
  explicit PictureFolder(std::filesystem::path folder);
  void write(const std::string& name, std::string_view svg);
  /// The paths of all that was written, in order.
  const std::vector<std::string>& written() const { return written_; }

 private:
  const std::filesystem::path folder_;
  std::vector<std::string> written_;
};

}  // namespace runner
