#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/cli/console.h"
#include "runner/cli/log_flags.h"

namespace runner {

struct DataFlags {
  std::string action;  ///< "make" or "fetch"
  std::string what;    ///< image_folder (make), cub200 or hf:ORG/NAME@REVISION (fetch)
  std::string out;     ///< the folder to write, or to fetch into
  std::int64_t classes = 8, per_class = 100, size = 64, seed = 0;  ///< make
  std::vector<std::string> from_files;                             ///< fetch: files of a data set that are here already
  std::vector<std::string> files;                                  ///< fetch: which of a model's files
  std::string url;                                                 ///< fetch: another server's address
  LogFlags log;
};

ExitCode fetch_data(const DataFlags& flags, Console& console);

}  // namespace runner
