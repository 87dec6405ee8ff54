#include "runner/shared/text/secret_name.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(QuotableLine, HidesWhatFollowsTheKeyOfASecret) {
  for (const auto& [line, shown] :
       {std::pair("+vars.password=hunter2", "+vars.password=*******"),
        {"+vars.token=hunter2,hunter3", "+vars.token=***************"},
        {"  api_key: 'hunter2'", "  api_key: '********"},
        {"vars: {db_pass: hunter2, n: 3}", "vars: {db_pass: *******, n: 3}"},
        {"a={password:hunter2,n:1}", "a={password:*******,n:1}"},
        {"password: 1234", "password: ****"}})
    EXPECT_EQ(quotable_line(line), shown);
}

TEST(QuotableLine, LeavesTheRest) {
  for (const char* line : {"", "train.epochs=3", "a: ${oc.dict.keys:b}", "memory.two_pass=auto",
                           "model.tokenizer=clip", "max_tokens: 77", "pad_token: 50256",
                           "api_key: ${oc.env:API_KEY}", "password:", "token: null", "author: me",
                           "key_size: 64", "vars: {password: {a: 1}}", "=", ":"})
    EXPECT_EQ(quotable_line(line), line);
}

}  // namespace
}  // namespace runner
