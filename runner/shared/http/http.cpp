#include "runner/shared/http/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "runner/shared/stage/run_context.h"

namespace runner {
namespace {

constexpr int kMostRedirects = 10;
constexpr std::size_t kMostHeaders = 1000;
constexpr int kCancelPoll = 100;  // milliseconds

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct CurlMultiDeleter {  // CURLM may be the same type as CURL
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
using Curl = std::unique_ptr<CURL, CurlDeleter>;
using CurlMulti = std::unique_ptr<CURLM, CurlMultiDeleter>;
using CurlUrl = std::unique_ptr<CURLU, CurlDeleter>;
using CurlList = std::unique_ptr<curl_slist, CurlDeleter>;

std::string part_of(CURLU* url, CURLUPart part, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

/// The state shared by the callbacks of one request.
struct Hop {
  const HttpSettings& settings;
  const std::function<void(const HttpReply&, std::string_view)>& on_body;
  HttpReply& reply;
  CURL* curl;
  std::exception_ptr thrown;  // no exception may pass through C code
};

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* pointer) {
  auto& hop = *static_cast<Hop*>(pointer);
  const std::string_view line(data, size);
  // A status line starts a new response; "100 Continue" and the like may precede the real one.
  if (line.starts_with("HTTP/")) {
    hop.reply.headers.clear();
    return size;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return size;
  if (hop.reply.headers.size() >= kMostHeaders) return 0;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  hop.reply.headers[std::move(name)] = trimmed(line.substr(colon + 1));
  return size;
}

int status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

std::size_t take_body(char* data, std::size_t, std::size_t size, void* pointer) {
  auto& hop = *static_cast<Hop*>(pointer);
  hop.reply.status = status_of(hop.curl);
  if (is_redirect(hop.reply.status)) return size;  // ignores the HTML page of a redirect
  try {
    hop.on_body(hop.reply, {data, size});
    return size;
  } catch (...) {
    hop.thrown = std::current_exception();
    return size + 1;
  }
}

int look_for_cancel(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& hop = *static_cast<const Hop*>(pointer);
  return hop.settings.canceled && hop.settings.canceled() ? 1 : 0;
}

bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;  // there are about a hundred other status codes
  }
}

void set_certificates(CURL* curl) {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* file = std::getenv(name); file && *file)
      curl_easy_setopt(curl, CURLOPT_CAINFO, file);
  }
}

void set_identity(CURL* curl, const HttpRequest& request) {
  if (!request.token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, request.token.c_str());
  } else if (!request.user.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(curl, CURLOPT_USERNAME, request.user.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, request.password.c_str());
  }
}

CurlList header_list(const HttpRequest& request) {
  curl_slist* lines = nullptr;
  for (const std::string& header : request.headers)
    lines = curl_slist_append(lines, header.c_str());
  if (request.json) {
    lines = curl_slist_append(lines, "Content-Type: application/json");
    lines = curl_slist_append(lines, "Expect:");  // no round trip before a long body
  }
  return CurlList(lines);
}

/// Does what curl_easy_perform() does, which asks only once a second whether to cancel.
CURLcode perform(CURL* curl) {
  const CurlMulti multi(curl_multi_init());
  if (!multi || curl_multi_add_handle(multi.get(), curl) != CURLM_OK) return CURLE_FAILED_INIT;
  CURLcode code = CURLE_OK;
  CURLMcode state = CURLM_OK;
  for (int running = 1; running > 0 && state == CURLM_OK;) {
    state = curl_multi_perform(multi.get(), &running);
    if (running > 0 && state == CURLM_OK)
      state = curl_multi_poll(multi.get(), nullptr, 0, kCancelPoll, nullptr);
  }
  int left = 0;
  for (const CURLMsg* message; (message = curl_multi_info_read(multi.get(), &left));)
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  curl_multi_remove_handle(multi.get(), curl);
  return state == CURLM_OK ? code : CURLE_FAILED_INIT;
}

/// Sends one request and stores the response in `reply`. Returns the target if the response is a
/// redirect; otherwise an empty string.
std::string send_once(const HttpRequest& request, const std::string& url, bool is_own_host,
                      const HttpSettings& settings,
                      const std::function<void(const HttpReply&, std::string_view)>& on_body,
                      HttpReply& reply) {
  const Curl curl(curl_easy_init());
  if (!curl) throw HttpError("cannot initialize libcurl", false);
  Hop hop{settings, on_body, reply, curl.get(), {}};
  char message[CURL_ERROR_SIZE] = "";
  const CurlList headers = header_list(request);

  CURL* const c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "retort");
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(c, CURLOPT_NOBODY, request.wants_body ? 0L : 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, settings.connect_seconds);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, settings.stall_seconds);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, static_cast<long>(settings.longest.count()));
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, &hop);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &hop);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_for_cancel);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &hop);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  set_certificates(c);
  if (request.json) {
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.json->size()));
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, request.json->c_str());
  }
  if (is_own_host) set_identity(c, request);
  const CURLcode code = perform(c);
  if (hop.thrown) std::rethrow_exception(hop.thrown);
  if (code == CURLE_ABORTED_BY_CALLBACK) throw Canceled{};
  if (code != CURLE_OK) {
    throw HttpError(shown_url(url) + ": " + (*message ? message : curl_easy_strerror(code)),
                    is_passing(code));
  }
  reply.status = status_of(c);
  for (const auto& [name, value] : reply.headers) reply.first_seen.emplace(name, value);
  const char* next = nullptr;
  if (is_redirect(reply.status)) curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &next);
  return next ? next : "";
}

}  // namespace

HttpReply send(const HttpRequest& request, const HttpSettings& settings,
               const std::function<void(const HttpReply& reply, std::string_view bytes)>& on_body) {
  static std::once_flag started;
  std::call_once(started, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::string home = origin_of(request.url);
  if (home.empty())
    throw HttpError("'" + shown_url(request.url) + "' is not an http: or https: address", false);
  HttpReply reply;
  reply.url = request.url;
  for (int hops = 0; hops <= kMostRedirects; ++hops) {
    const std::string next =
        send_once(request, reply.url, origin_of(reply.url) == home, settings, on_body, reply);
    if (next.empty() || request.json) return reply;
    if (!is_followed(reply.url, next)) {
      throw HttpError(
          shown_url(reply.url) + " redirects to '" + shown_url(next) + "', which is not followed",
          false);
    }
    if (!request.leaves_host && origin_of(next) != home) return reply;
    reply.url = next;
  }
  throw HttpError(shown_url(request.url) + " redirects too many times", false);
}

std::string origin_of(const std::string& url) {
  const CurlUrl parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  const std::string scheme = part_of(parsed.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return "";
  std::string host = part_of(parsed.get(), CURLUPART_HOST);
  std::ranges::transform(host, host.begin(),
                         [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return scheme + "://" + host + ":" + part_of(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool is_followed(const std::string& from, const std::string& to) {
  const std::string origin = origin_of(to);
  return origin.starts_with("https:") ||
         (origin.starts_with("http:") && !origin_of(from).starts_with("https:"));
}

std::string shown_url(const std::string& url) {
  const CurlUrl parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) !=
      CURLUE_OK) {
    return url.substr(0, url.find_first_of("?#@"));
  }
  for (const CURLUPart part :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    curl_url_set(parsed.get(), part, nullptr, 0);
  }
  return part_of(parsed.get(), CURLUPART_URL);
}

}  // namespace runner
