// Tokenization, compared with transformers and open_clip, with the vocabulary published by OpenAI.

#include "stages/text/tokenizer.h"
#include "tests/parity/recorded_case.h"
#include "tests/support/shared_data.h"

namespace {

using namespace stages;
namespace fs = std::filesystem;

constexpr std::size_t kContext = 77;

/// Matches lists of texts with the tokens from transformers; these cases declare no kind.
bool is_tokenizer_case(const RecordedCase& recorded) {
  const auto cases = recorded.json.find("cases");
  return cases != recorded.json.end() && cases->is_array() && !cases->empty() &&
         cases->front().contains("hf");
}

void expect_tokens(const Tokenizer& tokenizer, const nlohmann::json& recorded) {
  const std::string text = recorded.at("text");
  SCOPED_TRACE(text);
  auto tokens = tokenizer.encode(text);
  ASSERT_TRUE(tokens) << tokens.errors().front().message;
  EXPECT_EQ(tokens->size(), recorded.at("hf_length_untruncated"));
  EXPECT_EQ(cut_tokens(*tokens, kContext), recorded.at("hf_length_untruncated") > kContext);
  EXPECT_EQ(*tokens, recorded.at("hf").get<std::vector<std::int32_t>>());
}

/// Checks that the tokens are as recorded, or that the text is rejected because OpenAI's cleaning
/// might change it. Returns whether it was rejected.
bool is_refused_or_as_recorded(const Tokenizer& tokenizer, const nlohmann::json& recorded) {
  auto tokens = tokenizer.encode(recorded.at("text").get<std::string>());
  if (!tokens) return true;
  cut_tokens(*tokens, kContext);
  EXPECT_EQ(*tokens,
            recorded.value("open_clip", recorded.at("hf")).get<std::vector<std::int32_t>>())
      << recorded.at("text");
  return false;
}

void compare_tokenizer(const RecordedCase& recorded) {
  const fs::path published = shared_data("data/clip/bpe_simple_vocab_16e6.txt.gz");
  if (published.empty()) GTEST_SKIP() << "../shared/data/clip does not exist";
  std::vector<TokenizerOptions> sources = {{.merges = published}};
  const fs::path merges = recorded.path.parent_path() / "merges.txt.gz";
  if (fs::exists(merges))
    sources.push_back(
        {.merges = merges, .vocabulary = recorded.path.parent_path() / "vocab.json.gz"});
  for (TokenizerOptions& source : sources) {
    SCOPED_TRACE(source.merges->string());
    const auto tokenizer = Tokenizer::read(source);
    ASSERT_TRUE(tokenizer) << tokenizer.errors().front().message;
    EXPECT_EQ(tokenizer->size(), 49408);
    for (const nlohmann::json& one : recorded.json.at("cases")) expect_tokens(*tokenizer, one);

    source.cleaning = TextCleaning::kOpenai;
    const auto openai = Tokenizer::read(source);
    ASSERT_TRUE(openai);
    std::ptrdiff_t refused = 0;
    for (const nlohmann::json& one : recorded.json.at("cases"))
      refused += is_refused_or_as_recorded(*openai, one);
    std::printf("cleaning: openai refuses %td of %zu texts\n", refused,
                recorded.json.at("cases").size());
  }
}

}  // namespace

std::vector<CaseKind> tokenizer_cases() {
  return {{"Tokenizers", is_tokenizer_case, compare_tokenizer}};
}
