// Tokenizers of Python towers, with a Python simulated by this test; tests/end_to_end/ uses real
// ones.

#include "stages/model/tower_tokenizer.h"

#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/python/python_host.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::IsEmpty;

/// A fake Python host. For each text, its tokenizer returns the number of bytes, repeated `length`
/// times.
struct Tokenizing {
  std::int64_t length = 4;
  std::string fails_at = {};            ///< the request that fails
  std::vector<std::string> done = {};   ///< the requests
  std::vector<std::string> texts = {};  ///< of the last call of the tokenizer
} tokenizing;

int play_tokenizer(const char* text) {
  const Json request = Json::parse(text);
  const std::string what = request["do"];
  tokenizing.done.push_back(what);
  if (what == tokenizing.fails_at) {
    reply_to_python_call(Json({{"error", "KeyError: 'cat' (my_tokens.py:3)"}}).dump().c_str());
    return 1;
  }
  if (what == "tokenize") {
    tokenizing.texts = request["texts"].get<std::vector<std::string>>();
    std::vector<std::int64_t> sizes;
    for (const std::string& one : tokenizing.texts)
      sizes.push_back(static_cast<std::int64_t>(one.size()));
    give_to_python("tokens", torch::tensor(sizes).unsqueeze(1).repeat({1, tokenizing.length}));
  }
  reply_to_python_call("{}");
  return 0;
}

class HostedTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    tokenizing = {};
    set_python(play_tokenizer);
  }
  void TearDown() override { set_python(nullptr); }

  static TowerOptions options() {
    return {.pointer = "/model/towers",
            .python_tokenizer = PythonTokenizerOptions{"my_tokens.py:make", Json::object()},
            .context = {.length = 77}};
  }
};

TEST_F(HostedTokenizer, TextsAreTokenizedTogetherAndTokenRowsAreNotTrimmed) {
  const TowerTokenizer tokenizer(options());
  EXPECT_EQ(tokenizer.length(), 4);
  const TokenizedTexts texts = tokenizer.tokenized({"a cat", "a dog!"}, std::nullopt);
  EXPECT_THAT(tokenizing.texts, ElementsAre("a cat", "a dog!"));
  EXPECT_TRUE(texts.ids.equal(torch::tensor({{5, 5, 5, 5}, {6, 6, 6, 6}}, at::kLong)));
  EXPECT_THAT(texts.lengths, ElementsAre(4, 4));
  EXPECT_THAT(texts.cut, IsEmpty());
}

TEST_F(HostedTokenizer, TokenOutsideTheEmbeddingsIsRejected) {
  const TowerTokenizer tokenizer(options());
  EXPECT_EQ(tokenizer.tokenized({"a cat"}, 6).ids.size(0), 1);
  EXPECT_REFUSED(tokenizer.tokenized({"a", "a cat"}, 5), kOptionConflict,
                 "/model/towers/tokenizer/entry", "the token 5 for 'a cat'",
                 "embeddings for 5 tokens");
  tokenizer.check(/*known=*/5);  // the size of its vocabulary is unknown
}

TEST_F(HostedTokenizer, ErrorInPythonIsReportedAtTheEntry) {
  tokenizing.fails_at = "make_tokenizer";
  EXPECT_REFUSED(TowerTokenizer(options()), kStageFailed, "/model/towers/tokenizer/entry",
                 "KeyError: 'cat'");
  tokenizing.fails_at = "tokenize";
  EXPECT_REFUSED(TowerTokenizer(options()), kStageFailed, "/model/towers/tokenizer/entry",
                 "KeyError: 'cat'");
  tokenizing.fails_at = "";
  const TowerTokenizer tokenizer(options());
  tokenizing.fails_at = "tokenize";
  EXPECT_REFUSED(tokenizer.tokenized({"a cat"}, std::nullopt), kStageFailed,
                 "/model/towers/tokenizer/entry", "KeyError: 'cat'");
}

TEST_F(HostedTokenizer, EmptyAndNonUtf8CaptionsDoNotReachPython) {
  const TowerTokenizer tokenizer(options());
  tokenizing.done.clear();
  EXPECT_REFUSED(tokenizer.tokenized({"a cat", " "}, std::nullopt), kBadAnnotations, "",
                 "a caption is empty");
  EXPECT_REFUSED(tokenizer.tokenized({"a \xe9"}, std::nullopt), kBadAnnotations, "",
                 "a caption is not UTF-8");
  EXPECT_EQ(tokenizer.tokenized({}, std::nullopt).ids.size(0), 0);
  EXPECT_THAT(tokenizing.done, IsEmpty());
}

TEST_F(HostedTokenizer, IsReleasedInPython) {
  { const TowerTokenizer tokenizer(options()); }
  EXPECT_THAT(tokenizing.done, ElementsAre("make_tokenizer", "tokenize", "release_tokenizer"));
}

}  // namespace
}  // namespace stages
