// Preprocessing of generated full-size retina images on one thread, without reading files.

#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "stages/data/preprocessing.h"
#include "stages/retina/retina.h"
#include "tests/bench/blocks.h"

/// One argument, JSON: {"size": pixels, "folder": where images are written as raw RGB bytes,
/// "images": how many}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  const int size = options.at("size");
  std::vector<stages::Image> images;
  for (std::uint64_t i = 0; i < options.at("images").get<std::uint64_t>(); ++i) {
    images.push_back(
        stages::draw_retina(static_cast<std::int64_t>(i % 5), size, stages::Random({i})));
    std::ofstream file(options.at("folder").get<std::string>() + "/" + std::to_string(i) + ".rgb",
                       std::ios::binary);
    file.write(reinterpret_cast<const char*>(images.back().pixels.data()),
               static_cast<std::streamsize>(images.back().pixels.size()));
  }
  const std::vector<std::pair<std::string, stages::Preprocessing>> steps = {
      {"CLAHE", {.clahe = stages::Clahe{}}},
      {"flatten and sharpen", {.flatten_sharpen = stages::FlattenSharpen{}}}};
  nlohmann::json sums;
  for (const auto& [name, step] : steps) {
    std::int64_t sum = 0;
    for (const stages::Image& image : images) {
      const stages::Image made = stages::preprocessed(image, step);
      sum = std::accumulate(made.pixels.begin(), made.pixels.end(), sum);
    }
    sums[name] = sum;
  }
  report({{"sums", sums}});
  while (next_block()) {
    nlohmann::json seconds;
    for (const auto& [name, step] : steps) {
      const stages::Preprocessing& used = step;  // clang 14 cannot capture a structured binding
      seconds[name] = seconds_of([&] {
        for (const stages::Image& image : images)
          static_cast<void>(stages::preprocessed(image, used));
      });
    }
    report({{"seconds", seconds}});
  }
  return 0;
}
