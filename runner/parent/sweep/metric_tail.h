#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace runner {

/// The values of one metric in a metrics.jsonl that somebody is writing: "name", of whichever node, or "node:name".
class MetricTail {
 public:
  MetricTail(std::filesystem::path file, std::string metric) : file_(std::move(file)), metric_(std::move(metric)) {}

  /// All that are there by now, in their order. Reads what is new; a file that was replaced is read from its beginning.
  const std::vector<double>& values();

 private:
  void take(const std::string& line);

  std::filesystem::path file_;
  std::string metric_;
  ino_t inode_ = 0;
  std::streamoff at_ = 0;  // bytes of whole lines that were read
  std::vector<double> values_;
};

/// The names of all metrics in a metrics.jsonl, sorted, without those of memory.
std::vector<std::string> metric_names(const std::filesystem::path& file);

}  // namespace runner
