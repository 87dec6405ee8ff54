// Requests to `retort serve`: the input as a whole request, as its target and as its headers. What
// is parsed is written and parsed again.

#include "runner/parent/serve/http_message.h"
#include "runner/shared/text/percent_encoding.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

namespace {

/// Returns the text of a request that is read as this one.
std::string written(const PageRequest& request) {
  std::string head = request.method + " " + request.path;
  for (const auto& [name, value] : request.query)
    head += (head.find('?') == head.npos ? "?" : "&") + percent_encoded(name) + "=" +
            percent_encoded(value);
  head += " HTTP/1.1\r\n";
  for (const auto& [name, value] : request.headers) head += name + ": " + value + "\r\n";
  return head + "\r\n";
}

void read(const std::string& head) {
  const auto parsed = parse_request(head);
  if (const int* const status = std::get_if<int>(&parsed))
    return require(*status == 400 || *status == 505, "is rejected with another status", head);
  const auto& request = std::get<PageRequest>(parsed);
  require(!request.method.empty() && request.path.starts_with('/'), "has no target", head);
  for (const std::string& text : {request.method, request.path, request.cookie("retort-8765")})
    require(text.find_first_of("\r\n") == text.npos, "reads more than its line", head);
  const auto again = parse_request(written(request));
  const auto* const same = std::get_if<PageRequest>(&again);
  require(same && same->method == request.method && same->path == request.path &&
              same->query == request.query && same->headers == request.headers,
          "reads as another", head);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string input = text_of(bytes, size);
  read(input);
  if (input.ends_with('\n')) input.pop_back();  // of a line of the seeds
  read(input + "\r\n\r\n");
  read("GET /" + input + " HTTP/1.1\r\n\r\n");
  read("GET / HTTP/1.1\r\n" + input + "\r\n\r\n");
  return 0;
}
