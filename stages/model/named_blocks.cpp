#include "stages/model/named_blocks.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>

#include <torch/nn/module.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/suggest.h"
#include "stages/numerics/precision_map.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

class NamedBlocks {
 public:
  NamedBlocks(const torch::nn::Module& network, const std::vector<std::string>& patterns,
              const std::vector<std::string>& unsuitable)
      : patterns_(patterns), unsuitable_(unsuitable) {
    for (const auto& item : network.named_modules("", /*include_self=*/false))
      modules_.push_back(item.key());
  }

  /// Returns what is wrong with a pattern.
  std::optional<StageError> check(const std::string& pattern) const {
    std::vector<std::string> blocks;
    std::ranges::copy_if(modules_, std::back_inserter(blocks),
                         [&](const std::string& path) { return names_module(pattern, path); });
    if (blocks.empty()) {
      return StageError(ErrorCode::kOptionConflict,
                        "'" + pattern + "' matches no module of the network")
          .with_help(runner::did_you_mean_path(pattern, modules_));
    }
    for (const std::string& block : blocks) {
      if (const std::string outer = outer_block(block); !outer.empty()) {
        return StageError(ErrorCode::kOptionConflict,
                          "block '" + block + "' is inside block '" + outer + "'")
            .with_help("choose modules that do not contain each other");
      }
      if (std::ranges::count(unsuitable_, block) > 0) {
        return StageError(ErrorCode::kOptionConflict,
                          "block '" + block + "' does not map one tensor to one tensor")
            .with_help("choose other modules, or set blocks: null");
      }
    }
    return {};
  }

 private:
  /// Returns the innermost block that contains the module at `path`; empty if there is none.
  std::string outer_block(std::string path) const {
    while (path.find('.') != path.npos) {
      path.resize(path.rfind('.'));
      const auto names_it = [&](const std::string& pattern) { return names_module(pattern, path); };
      if (std::ranges::any_of(patterns_, names_it)) return path;
    }
    return "";
  }

  const std::vector<std::string>&patterns_, &unsuitable_;
  std::vector<std::string> modules_;
};

}  // namespace

void check_blocks(const torch::nn::Module& network, const std::vector<std::string>& patterns,
                  const std::vector<std::string>& unsuitable, const std::string& model) {
  const NamedBlocks blocks(network, patterns, unsuitable);
  runner::FoundErrors found;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (std::optional<StageError> error = blocks.check(patterns[i]))
      found.add(std::move(*error).at("/blocks/" + std::to_string(i)).in_stage(model));
  }
  found.throw_any();
}

}  // namespace stages
