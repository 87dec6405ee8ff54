#include "runner/record/finished_node.h"

#include <nlohmann/json.hpp>

#include "runner/disk/file_system.h"
#include "runner/disk/new_file.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

constexpr std::size_t kLargest = 4096;

}  // namespace

void write_finished(const std::filesystem::path& folder, const FinishedNode& node, Storage& storage) {
  const nlohmann::ordered_json json = {{"schema", 1},
                                       {"key", node.key},
                                       {"seconds", node.seconds},
                                       {"peak_memory_bytes", node.peak_memory_bytes},
                                       {"reused_from", node.reused_from},
                                       {"reuse_key", node.reuse_key}};
  write_atomically(NodeLayout(folder).finished(), json.dump(2) + "\n", storage);
}

std::optional<FinishedNode> read_finished(const std::filesystem::path& folder) {
  const auto text = real_file_system().read(NodeLayout(folder).finished(), kLargest);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != 1) return std::nullopt;
  try {
    return FinishedNode{json.at("key"), json.at("seconds"), json.at("peak_memory_bytes"), json.value("reused_from", ""),
                        json.value("reuse_key", "")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace runner
