// Pickles written by torch.save, and the tensors in them. The input is a pickle; in a text seed,
// which cannot hold all bytes, \xHH stands for a byte.

#include <stdexcept>

#include "stages/weights/pickled_weights.h"
#include "tests/fuzz/fuzz.h"

using namespace stages;

namespace {

std::string without_escapes(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x';
    const std::size_t high = is_escape ? kDigits.find(text[i + 2]) : kDigits.npos;
    const std::size_t low = is_escape ? kDigits.find(text[i + 3]) : kDigits.npos;
    if (high == kDigits.npos || low == kDigits.npos) {
      bytes += text[i];
    } else {
      bytes += static_cast<char>(high * 16 + low);
      i += 3;
    }
  }
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::int64_t kMostBytes = 1 << 20;
  const std::string input = without_escapes(text_of(bytes, size));
  try {
    const Pickle pickle = read_pickle(input);
    require(pickle.length <= input.size(), "read beyond the end", input);
    std::string before;
    std::int64_t total = 0;
    for (const PickledWeight& weight : pickled_weights(pickle, kMostBytes).weights) {
      require(before.empty() || before < weight.name, "names are not sorted", weight.name);
      before = weight.name;
      const PickledStorage& storage = pickle.storages[weight.tensor.storage];
      std::int64_t last = weight.tensor.offset, count = 1;
      for (std::size_t i = 0; i < weight.tensor.sizes.size(); ++i) {
        count *= weight.tensor.sizes[i];
        last += (weight.tensor.sizes[i] - 1) * weight.tensor.strides[i];
      }
      require(count == weight.count, "miscounted", weight.name);
      total += count * weight.tensor.type->bytes;
      require(weight.tensor.offset >= 0, "begins before its storage", weight.name);
      require(count == 0 ||
                  (last + 1) * weight.tensor.type->bytes <= storage.count * storage.type->bytes,
              "reaches beyond its storage", weight.name);
    }
    require(total <= kMostBytes, "more bytes than allowed", before);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
