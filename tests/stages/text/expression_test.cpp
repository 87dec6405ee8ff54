#include "stages/text/expression.h"

#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

TEST(ExpressionTest, WholeNameMustMatch) {
  const Expression expression(".*\\.(q|v)_proj");
  EXPECT_TRUE(expression.matches("encoder.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(expression.matches("encoder.layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(expression.matches("q_proj"));
}

TEST(ExpressionTest, AlternativesMustMatchTheWholeName) {
  const Expression expression("a|ab");
  EXPECT_TRUE(expression.matches("ab"));
  EXPECT_FALSE(expression.matches("abc"));
}

TEST(ExpressionTest, UsesThePythonDialect) {
  EXPECT_TRUE(
      Expression("(?P<stem>blocks)\\.(?P<idx>\\d+)(?<!9)\\.(?i:QKV)").matches("blocks.3.qkv"));
  EXPECT_EQ(Expression("blocks\\.(?P<idx>\\d+)\\..*").capture("blocks.31.attn"), "31");
  EXPECT_EQ(Expression("blocks").capture("blocks"), "");
  EXPECT_EQ(Expression("blocks").capture("block"), std::nullopt);
}

TEST(ExpressionTest, InvalidExpressionReportsThePosition) {
  try {
    const Expression expression("a(b");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "missing closing parenthesis at character 3");
  }
  EXPECT_THROW(Expression(std::string(5000, 'a')), std::invalid_argument);
}

TEST(ExpressionTest, ExponentialMatchingIsStopped) {
  const Expression expression("(a+)+(a+)+[bc]");
  EXPECT_REFUSED(expression.matches(std::string(60, 'a')), kBadPattern, "", "'(a+)+(a+)+[bc]'",
                 std::string(60, 'a'));
}

}  // namespace
}  // namespace stages
