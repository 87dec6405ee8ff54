#include "runner/disk/digest.h"

#include <fcntl.h>
#define OPENSSL_SUPPRESS_DEPRECATED  // sha256() uses what is
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <stdexcept>

#include "runner/disk/descriptor.h"

namespace runner {
namespace {

void check(int result) {
  if (result != 1) throw std::runtime_error("OpenSSL refuses a digest");
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

const EVP_MD* method(DigestKind kind) {
  switch (kind) {
    case DigestKind::kMd5:
      return EVP_md5();
    case DigestKind::kSha1:
      return EVP_sha1();
    case DigestKind::kSha256:
      return EVP_sha256();
  }
  return nullptr;
}

}  // namespace

std::string_view name(DigestKind kind) {
  switch (kind) {
    case DigestKind::kMd5:
      return "MD5";
    case DigestKind::kSha1:
      return "SHA-1";
    case DigestKind::kSha256:
      return "SHA-256";
  }
  return "";
}

struct Digest::State {
  State() : context(EVP_MD_CTX_new()) {}
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* const context;
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  check(EVP_DigestInit_ex(state_->context, method(kind), nullptr));
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::update(std::string_view bytes) { check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size())); }

int Digest::update_from(const std::filesystem::path& file, const std::function<void(std::int64_t bytes)>& step) {
  // Without waiting, so that a pipe of that name holds nothing up.
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!opened.is_open() || ::fstat(*opened, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  std::string piece(1 << 20, '\0');
  for (std::int64_t bytes = 0;;) {
    const ssize_t size = ::read(*opened, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno;
    if (size == 0) return 0;
    update({piece.data(), static_cast<std::size_t>(size)});
    bytes += size;
    if (step) step(bytes);
  }
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(state_->context, digest.data(), &size));
  return hexadecimal({digest.data(), size});
}

/// Without OpenSSL's providers, whose loading would be a fifth of all that `retort validate` does.
std::string sha256(std::string_view bytes) {
  SHA256_CTX context;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  check(SHA256_Init(&context));
  check(SHA256_Update(&context, bytes.data(), bytes.size()));
  check(SHA256_Final(digest.data(), &context));
  return hexadecimal(digest);
}

}  // namespace runner
