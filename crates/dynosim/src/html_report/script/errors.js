// Errors are noted on the root element, where tests and readers of the source find them.
const errors = [];

function noteError(error) {
  errors.push(String((error && error.message) || error));
  document.documentElement.dataset.errors = JSON.stringify(errors);
}

window.addEventListener('error', (event) => noteError(event.error || event.message));
window.addEventListener('unhandledrejection', (event) => noteError(event.reason));
document.addEventListener('securitypolicyviolation', (event) => noteError(`forbidden by policy: ${event.blockedURI}`));
for (const level of ['error', 'warn']) {
  const print = console[level].bind(console);
  console[level] = (...values) => {
    noteError(values.map(String).join(' '));
    print(...values);
  };
}
