#include "runner/shared/disk/digest.h"

#include <fcntl.h>
#define OPENSSL_SUPPRESS_DEPRECATED  // the low-level functions are deprecated
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <variant>

#include "runner/shared/disk/descriptor.h"

namespace runner {
namespace {

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

void check(int result) {
  if (result != 1) throw std::runtime_error("OpenSSL failed to compute a digest");
}

/// An OpenSSL digest, through the low-level functions: the EVP functions pull in all of OpenSSL and
/// load its providers.
template <typename Context, std::size_t kSize, int (*kStart)(Context*),
          int (*kUpdate)(Context*, const void*, std::size_t),
          int (*kFinish)(unsigned char*, Context*)>
class Sum {
 public:
  Sum() { check(kStart(&context_)); }
  void update(std::string_view bytes) { check(kUpdate(&context_, bytes.data(), bytes.size())); }
  std::string finish() {
    std::array<unsigned char, kSize> digest;
    check(kFinish(digest.data(), &context_));
    return hexadecimal(digest);
  }

 private:
  Context context_;
};

using Md5 = Sum<MD5_CTX, MD5_DIGEST_LENGTH, MD5_Init, MD5_Update, MD5_Final>;
using Sha1 = Sum<SHA_CTX, SHA_DIGEST_LENGTH, SHA1_Init, SHA1_Update, SHA1_Final>;
using Sha256 = Sum<SHA256_CTX, SHA256_DIGEST_LENGTH, SHA256_Init, SHA256_Update, SHA256_Final>;

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
  std::variant<Md5, Sha1, Sha256> sum;
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  switch (kind) {
    case DigestKind::kMd5:
      state_->sum.emplace<Md5>();
      break;
    case DigestKind::kSha1:
      state_->sum.emplace<Sha1>();
      break;
    case DigestKind::kSha256:
      state_->sum.emplace<Sha256>();
      break;
  }
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::update(std::string_view bytes) {
  std::visit([&](auto& sum) { sum.update(bytes); }, state_->sum);
}

int Digest::update_from(const std::filesystem::path& file,
                        const std::function<void(std::int64_t bytes)>& step) {
  // O_NONBLOCK, because otherwise opening a pipe with that name would block.
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
  return std::visit([](auto& sum) { return sum.finish(); }, state_->sum);
}

std::string sha256(std::string_view bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.finish();
}

}  // namespace runner
