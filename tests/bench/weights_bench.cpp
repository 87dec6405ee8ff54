// Reading saved weights (stages/weights/saved_weights.h) with their checksums, of files that
// weights.py has written.

#include <map>

#include <torch/types.h>

#include "stages/weights/saved_weights.h"
#include "tests/bench/blocks.h"

/// One argument, JSON: {"files": {name: path}}. A block reads each file so many times, in turns;
/// its answer is
/// {"seconds": {name: of one}, "sums": {name: of the first number of every tensor}}.
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
