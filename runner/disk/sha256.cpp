#include "runner/disk/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace runner {
namespace {

void check(int result) {
  if (result != 1) throw std::runtime_error("OpenSSL has no SHA-256");
}

}  // namespace

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {}
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* const context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr));
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) { check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size())); }

std::string Sha256::digest() {
  std::array<unsigned char, 32> digest;
  check(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256 sha256;
  sha256.update(bytes);
  return sha256.digest();
}

}  // namespace runner
