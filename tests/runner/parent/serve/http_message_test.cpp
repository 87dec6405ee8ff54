#include "runner/parent/serve/http_message.h"
#include "runner/shared/text/percent_encoding.h"

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

PageRequest read(const std::string& head) { return std::get<PageRequest>(parse_request(head)); }

int refused(const std::string& head) {
  const auto parsed = parse_request(head);
  const int* const status = std::get_if<int>(&parsed);
  return status ? *status : 0;
}

TEST(HttpMessage, RequestIsReadWithItsQueryAndHeaders) {
  const PageRequest request = read(
      "GET /run/0a?text=a+b%2Fc%26&page=2&page=3&empty HTTP/1.1\r\nHost: localhost:1\r\n"
      "X-Thing:\t spaced out \t\r\n\r\n");
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/run/0a");
  EXPECT_THAT(request.query,
              UnorderedElementsAre(Pair("text", "a b/c&"), Pair("page", "2"), Pair("empty", "")));
  EXPECT_EQ(request.header("host"), "localhost:1");
  EXPECT_EQ(request.header("x-thing"), "spaced out");
  EXPECT_EQ(request.field("none"), "");
}

TEST(HttpMessage, PathIsNotDecoded) {
  EXPECT_EQ(read("GET /%2e%2e/x HTTP/1.0\r\n\r\n").path, "/%2e%2e/x");
}

TEST(HttpMessage, OneOfSeveralCookiesIsFound) {
  const PageRequest request =
      read("GET / HTTP/1.1\r\nCookie: a=1; token=abc\r\nCookie: last=x=y\r\n\r\n");
  EXPECT_EQ(request.cookie("token"), "abc");
  EXPECT_EQ(request.cookie("last"), "x=y");
  EXPECT_EQ(request.cookie("tok"), "");
}

TEST(HttpMessage, MalformedRequestsAreRejected) {
  for (const char* head :
       {"\r\n", "GET\r\n\r\n", "GET / \r\n\r\n", "GET http://a/ HTTP/1.1\r\n\r\n",
        "G T / HTTP/1.1\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n", "GET /?a=%4 HTTP/1.1\r\n\r\n",
        "GET /?a=%zz HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\n folded: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nA: \x7f\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n", "GET / SPDY\r\n\r\n"})
    EXPECT_EQ(refused(head), 400) << head;
  EXPECT_EQ(refused("GET / HTTP/2.0\r\n\r\n"), 505);
}

TEST(HttpMessage, ReplyHasItsLengthUnlessItIsAStream) {
  EXPECT_EQ(reply_head({.status = 404, .body = "four", .headers = {{"A", "b"}}}),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/html; charset=utf-8\r\n"
            "Connection: close\r\nContent-Length: 4\r\nA: b\r\n\r\n");
  EXPECT_THAT(reply_head({.events = [] { return std::nullopt; }}),
              Not(HasSubstr("Content-Length")));
}

TEST(HttpMessage, EncodedQueryReadsBack) {
  EXPECT_EQ(percent_encoded("a b&c=d/\xC3\xA4"), "a%20b%26c%3Dd%2F%C3%A4");
  EXPECT_EQ(read("GET /?t=" + percent_encoded("50 %+\xC3\xA4") + " HTTP/1.1\r\n\r\n").field("t"),
            "50 %+\xC3\xA4");
}

}  // namespace
}  // namespace runner
