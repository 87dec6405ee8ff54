#include "runner/parent/serve/http_message.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace runner {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// True for a character allowed in a method or in the name of a header.
bool is_token(char c) {
  return is_letter_or_digit(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string::npos;
}

bool may_be_in_target(char c) { return c > ' ' && c < 127; }

/// True for a character allowed in the value of a header.
bool is_value(char c) {
  const auto code = static_cast<unsigned char>(c);
  return c == '\t' || (code >= ' ' && code != 127);
}

int hex_value(char c) {
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return std::isdigit(lower) ? lower - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Decodes part of a query: "a+b%2Fc" is "a b/c". nullopt if an escape is not complete.
std::optional<std::string> decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

/// Returns the part of `text` before `end`, and removes both from it.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + end.size());
  return part;
}

bool read_query(std::string_view text, PageRequest& request) {
  while (!text.empty()) {
    std::string_view value = take_until(text, "&");
    const auto name = decoded(take_until(value, "="));
    auto content = decoded(value);
    if (!name || !content) return false;
    request.query.emplace(*name, *std::move(content));
  }
  return true;
}

bool read_header(std::string_view line, PageRequest& request) {
  const std::size_t colon = line.find(':');
  if (colon == line.npos || colon == 0) return false;
  std::string name(line.substr(0, colon));
  std::string_view value = line.substr(colon + 1);
  if (!std::ranges::all_of(name, is_token) || !std::ranges::all_of(value, is_value)) return false;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!value.empty() && is_blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
  const auto [known, is_new] = request.headers.emplace(name, value);
  if (is_new) return true;
  if (name == "cookie") known->second.append("; ").append(value);
  return name != "host";  // for other headers, the first one counts
}

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

std::string found_in(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

}  // namespace

std::string PageRequest::field(const std::string& name) const { return found_in(query, name); }

std::string PageRequest::header(const std::string& name) const { return found_in(headers, name); }

std::string PageRequest::cookie(std::string_view name) const {
  const std::string all = header("cookie");
  std::string_view rest = all;
  while (!rest.empty()) {
    std::string_view value = take_until(rest, ";");
    while (value.starts_with(' ')) value.remove_prefix(1);
    if (take_until(value, "=") == name) return std::string(value);
  }
  return "";
}

std::variant<PageRequest, int> parse_request(std::string_view head) {
  std::string_view line = take_until(head, kLineEnd);
  PageRequest request;
  request.method = take_until(line, " ");
  std::string_view target = take_until(line, " ");
  if (request.method.empty() || !std::ranges::all_of(request.method, is_token) ||
      !target.starts_with('/') || !std::ranges::all_of(target, may_be_in_target))
    return 400;
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return line.starts_with("HTTP/") ? 505 : 400;
  request.path = take_until(target, "?");
  if (!read_query(target, request)) return 400;
  while (true) {
    const std::size_t end = head.find(kLineEnd);
    if (end == head.npos) return 400;
    if (end == 0) return request;
    if (!read_header(take_until(head, kLineEnd), request)) return 400;
  }
}

std::string reply_head(const PageReply& reply) {
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  head += reason(reply.status);
  head += "\r\nContent-Type: " + reply.type + "\r\nConnection: close\r\n";
  if (!reply.events) head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  return head + "\r\n";
}

}  // namespace runner
