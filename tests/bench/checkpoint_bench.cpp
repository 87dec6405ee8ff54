// Saving and loading a checkpoint (stages/checkpoint/checkpoints.h), compared with writing and
// reading the same number of plain bytes.

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <torch/types.h>

#include "stages/checkpoint/checkpoints.h"
#include "tests/bench/blocks.h"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTensor = 1 << 20;  // elements per tensor

/// `millions` of weights, each with the two moments of Adam.
stages::TrainingState state_of(std::int64_t millions) {
  stages::TrainingState state;
  for (std::int64_t i = 0; i < millions; ++i) {
    const std::string name = "layer" + std::to_string(i) + ".weight";
    state.model.set(name, torch::randn({kTensor}));
    state.optimizer.set(name + ".mean", torch::randn({kTensor}));
    state.optimizer.set(name + ".square", torch::randn({kTensor}));
  }
  return state;
}

void write_bare(const fs::path& path, const std::vector<char>& piece, std::int64_t pieces) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (std::int64_t i = 0; i < pieces; ++i) {
    if (write(file, piece.data(), piece.size()) != static_cast<ssize_t>(piece.size()))
      throw std::runtime_error("cannot write '" + path.string() + "'");
  }
  fsync(file);
  close(file);
}

void read_bare(const fs::path& path, std::vector<char>& piece) {
  std::ifstream file(path, std::ios::binary);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size()))) {
  }
}

}  // namespace

/// One argument, JSON: {"folder", "millions"}. A block alternates the given number of saves, plain
/// writes, loads and plain reads; its answer is {"seconds": {"save", "write", "load", "read":
/// each}, "bytes"}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  const auto millions = options.at("millions").get<std::int64_t>();
  const fs::path folder = options.at("folder").get<std::string>();
  stages::TrainingState state = state_of(millions);
  stages::Checkpoints checkpoints(folder / "checkpoints", {.keep_last = 1});
  std::vector<char> piece(sizeof(float) * kTensor, 'x');
  report({{"ready", true}});
  while (const std::optional<int> block = next_block()) {
    double save = 0, write = 0, load = 0, read = 0;
    for (int i = 0; i < *block; ++i) {
      ++state.step;
      save += seconds_of([&] { checkpoints.save(state); });
      write += seconds_of([&] { write_bare(folder / "bare", piece, 3 * millions); });
      load += seconds_of([&] { checkpoints.load_latest(); });
      read += seconds_of([&] { read_bare(folder / "bare", piece); });
    }
    report({{"seconds",
             {{"save", save / *block},
              {"write", write / *block},
              {"load", load / *block},
              {"read", read / *block}}},
            {"bytes", 3 * millions * static_cast<std::int64_t>(piece.size())}});
  }
}
