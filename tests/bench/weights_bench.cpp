// Reading saved weights (stages/weights/saved_weights.h) with their checksums, from files that
// weights.py wrote.

#include <map>

#include <torch/types.h>

#include "stages/weights/saved_weights.h"
#include "tests/bench/blocks.h"

/// One argument, JSON: {"files": {name: path}}. A block reads each file the given number of times,
/// alternating; its answer is {"seconds": {name: per file}, "sums": {name: sum of the first
/// elements of all tensors}}.
int main(int, char** arguments) {
  const auto files =
      nlohmann::json::parse(arguments[1]).at("files").get<std::map<std::string, std::string>>();
  report({{"ready", true}});
  while (const std::optional<int> block = next_block()) {
    std::map<std::string, double> seconds, sums;
    for (int i = 0; i < *block; ++i) {
      for (const auto& [name, path] : files) {
        const double began = seconds_now();
        const stages::SavedWeights weights = stages::read_saved_weights(path);
        seconds[name] += (seconds_now() - began) / *block;
        sums[name] = 0;
        for (const auto& [tensor, values] : weights.tensors)
          sums[name] += *values.const_data_ptr<float>();
      }
    }
    report({{"seconds", seconds}, {"sums", sums}});
  }
}
