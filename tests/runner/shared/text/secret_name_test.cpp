#include "runner/shared/text/secret_name.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(QuotableLine, HidesTextAfterTheKeyOfASecret) {
  for (const auto& [line, shown] :
       {std::pair("+vars.password=hunter2", "+vars.password=*******"),
        {"+vars.token=hunter2,hunter3", "+vars.token=***************"},
        {"  api_key: 'hunter2'", "  api_key: '********"},
        {"vars: {db_pass: hunter2, n: 3}", "vars: {db_pass: *******, n: 3}"},
        {"a={password:hunter2,n:1}", "a={password:*******,n:1}"},
        {"password: 1234", "password: ****"},
        {"+vars.password=${hunter2", "+vars.password=*********"},
        {"weights: http://me:hunter2@host/x", "weights: http://me:*******@host/x"}})
    EXPECT_EQ(quotable_line(line), shown);
}

TEST(QuotableLine, KeepsOtherText) {
  for (const char* line :
       {"", "train.epochs=3", "a: ${oc.dict.keys:b}", "memory.two_pass=auto",
        "model.tokenizer=clip", "max_tokens: 77", "pad_token: 50256", "api_key: ${oc.env:API_KEY}",
        "password:", "token: null", "author: me", "key_size: 64", "entry: my_tokens.py:make",
        "vars: {password: {a: 1}}", "=", ":"})
    EXPECT_EQ(quotable_line(line), line);
}

TEST(UrlSecrets, ArePasswordsTokensAndSecretQueryFields) {
  for (const auto& [url, shown] : {std::pair("http://me:hunter2@host/x", "http://me:***@host/x"),
                                   {"see http://me:hun@ter2@host, 'ftp://you:swordfish@h'",
                                    "see http://me:***@host, 'ftp://you:***@h'"},
                                   {"https://ghp_abc@github.com/a", "https://***@github.com/a"},
                                   {"https://host/x?a=1&token=hunter2&api_key=b#c",
                                    "https://host/x?a=1&token=***&api_key=***#c"}})
    EXPECT_EQ(without_url_secrets(url), shown);
  for (const char* url : {"", "://", "http://", "http://host:80/a@b", "ssh://git@github.com/a",
                          "http://me:***@host", "https://${user}@h", "http://host/?page=2&tokens",
                          "a@b:c", "http://host/x?", "http://@", "http://:@"})
    EXPECT_EQ(without_url_secrets(url), url);
}

TEST(QuotedSecrets, AreHiddenInQuotedOverrides) {
  for (const auto& [message, shown] :
       {std::pair("for your own values: +vars.password=hunter2",
                  "for your own values: +vars.password=***"),
        {"put it in quotes: '+vars.password=\"hunter'2]\"'",
         "put it in quotes: '+vars.password=***'"},
        {"'login_token=abc' is no name", "'login_token=***' is no name"},
        {"not expected: --password=hunter2\nnext", "not expected: --password=***\nnext"}})
    EXPECT_EQ(without_quoted_secrets(message), shown);
  for (const char* message :
       {"write key=value", "'vars.api_key=***' has no effect: 'vars.api_key=***', which comes",
        "as in vars.token=${oc.env:TOKEN}", "max_tokens=77", "password=", "=", "key=", "'token='"})
    EXPECT_EQ(without_quoted_secrets(message), message);
}

}  // namespace
}  // namespace runner
