#include "runner/parent/sweep/metric_tail.h"

#include <sys/stat.h>

#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_number.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

const std::vector<double>& MetricTail::values() {
  struct stat facts {};
  if (::stat(file_.c_str(), &facts) != 0) return values_;
  if (facts.st_ino != inode_ || facts.st_size < at_) {
    inode_ = facts.st_ino;
    at_ = 0;
    values_.clear();
  }
  if (facts.st_size == at_) return values_;
  std::ifstream file(file_, std::ios::binary);
  file.seekg(at_);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    take(line);
  }
  return values_;
}

void MetricTail::take(const std::string& line) {
  const std::string_view name = std::string_view(metric_).substr(metric_.find(':') + 1);  // all of it without a node
  if (line.find(name) == line.npos) return;                                               // most lines
  const auto json = parse_json<nlohmann::json>(line);
  if (!json.is_object() || json.value("name", nlohmann::json()) != name) return;
  if (name.size() < metric_.size() && json.value("node", nlohmann::json()) != metric_.substr(0, metric_.find(':')))
    return;
  const auto value = json.contains("value") ? number_from_json(json["value"]) : std::nullopt;
  if (value) values_.push_back(*value);
}

std::vector<std::string> metric_names(const std::filesystem::path& file) {
  std::set<std::string> names;
  std::ifstream lines(file, std::ios::binary);
  for (std::string line; std::getline(lines, line);) {
    const auto json = parse_json<nlohmann::json>(line);
    const auto name = json.is_object() ? json.value("name", nlohmann::json()) : nlohmann::json();
    if (name.is_string() && !name.get<std::string>().starts_with("memory/")) names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace runner
