// A vocabulary's list of merges, its token IDs, and texts for a vocabulary: the input is used as
// each of them.

#include <stdexcept>

#include "runner/shared/text/utf8.h"
#include "stages/text/tokenizer.h"
#include "stages/text/vocabulary.h"
#include "tests/fuzz/fuzz.h"

using namespace stages;

namespace {

constexpr std::string_view kMerges = "#version: 0.2\nt h\nth e</w>\nc a\nca t</w>\n";

void encode(const Vocabulary& vocabulary, const std::string& text, TextCleaning cleaning) {
  std::string clean;
  try {
    clean = cleaned(text, cleaning);
  } catch (const std::invalid_argument&) {
    return;
  }
  require(!runner::invalid_utf8(clean), "cleaned to what is not UTF-8", text);
  const BytePairs pairs(vocabulary.bytes, vocabulary.pairs);
  std::vector<std::int32_t> tokens;
  for_pieces(clean, cleaning, [&](std::string_view piece) {
    const std::size_t before = tokens.size();
    pairs.encode(piece, tokens);
    require(tokens.size() > before && tokens.size() <= before + piece.size(),
            "another number of tokens", text);
  });
  for (const std::int32_t token : tokens)
    require(token >= 0 && token < vocabulary.start, "no token of a text", text);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string input = text_of(bytes, size);
  for (const std::string& merges : {input, "#version: 0.2\n" + input}) {
    try {
      encode(read_merges(merges), "the cat sat", TextCleaning::kTransformers);
    } catch (const std::invalid_argument&) {
    }
  }
  try {
    read_merges(kMerges, input);
  } catch (const std::invalid_argument&) {
  }
  if (runner::invalid_utf8(input)) return 0;
  const Vocabulary vocabulary = read_merges(kMerges);
  for (const auto cleaning : {TextCleaning::kTransformers, TextCleaning::kOpenai})
    encode(vocabulary, input, cleaning);
  return 0;
}
